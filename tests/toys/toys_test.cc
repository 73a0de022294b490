// SPDX-License-Identifier: Apache-2.0
// The toys are found where everything else is found: in the registries.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "backend/cpu/kernels/registry.h"
#include "formats/checkpoint.h"
#include "models/registry.h"
#include "models/test_models.h"
#include "server/routes.h"
#include "server/service.h"

namespace peng {
namespace {

TEST(ToyModelTest, IsMadeByItsNameAndRuns) {
  const formats::Checkpoint checkpoint = formats::OpenCheckpoint(PENG_SOURCE_DIR "/tests/data/models/llama_mha");
  base::Json values = checkpoint.config.values();
  values.Set("architectures", base::Json(base::Json::Array{"ToyForCausalLM"}));
  const auto backend = models::MakeFloat32Backend();
  models::WeightLoader loader(*checkpoint.weights, *backend);
  const auto model = models::MakeModel(formats::ModelConfig("toy", values), loader);
  loader.LoadAll();
  EXPECT_EQ(model->info().architecture, "ToyForCausalLM");
  const auto one = models::LastLogits(*backend, *model, {7});
  ASSERT_EQ(one.size(), static_cast<size_t>(model->info().vocab_size));
  EXPECT_EQ(models::LastLogits(*backend, *model, {3, 5, 7}), one);
  EXPECT_NE(models::LastLogits(*backend, *model, {3, 5, 8}), one);
}

// linear_test.cc, which is part of this binary, runs it against the reference.
TEST(ToyKernelTest, IsChosen) {
  const auto* kernel = backend::cpu::ChooseLinearKernel(backend::cpu::Layout::kF32, backend::cpu::LhsType::kF32, 0);
  ASSERT_NE(kernel, nullptr);
  EXPECT_STREQ(kernel->name, "gemm_f32_f32_f32_toy");
}

class OneReply final : public server::HttpReply {
 public:
  void Send(server::HttpResponse response) override { response_ = std::move(response); }
  void Start(int, std::string_view, server::HttpHeaders) override {}
  void CarryStreams(size_t) override {}
  bool Write(std::string_view) override { return true; }
  void Finish() override {}
  void OnDisconnect(std::function<void()>) override {}
  const server::HttpResponse& response() const { return response_; }

 private:
  server::HttpResponse response_;
};

TEST(ToyEndpointTest, Answers) {
  server::ServiceOptions options;
  options.model_names = {"m"};
  server::Service service(std::move(options));
  const auto reply = std::make_shared<OneReply>();
  server::HttpRequest request;
  request.method = "GET";
  request.path = "/v1/toy";
  service.Handle(request, reply);
  EXPECT_EQ(reply->response().status, 200);
  EXPECT_EQ(reply->response().body, R"({"toy":"m"})");
}

}  // namespace
}  // namespace peng
