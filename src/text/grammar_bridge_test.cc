// SPDX-License-Identifier: Apache-2.0
// The constrained decoding half of the bridge, through its C ABI.
#include <gtest/gtest.h>

#include <vector>

#include "text/bridge_call.h"
#include "text/test_data.h"
#include "text/tokenizer_handle.h"

namespace peng::text {
namespace {

constexpr size_t kPadding = 77;

class GrammarBridgeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const uint32_t eos = *tokenizer_->eos_id();
    rows_ = tokenizer_->vocab_size() + kPadding;
    BridgeBuf error;
    ASSERT_EQ(peng_grammar_factory_new(tokenizer_->handle().tok, rows_, &eos, 1, &factory_, error.out()), 0)
        << error.view();
  }
  void TearDown() override {
    peng_grammar_free(grammar_);
    peng_grammar_factory_free(factory_);
  }

  std::string Compile(std::string_view kind, std::string_view source) {
    BridgeBuf error;
    peng_grammar_free(grammar_);
    grammar_ = nullptr;
    peng_grammar_new(factory_, ToBridge(kind), ToBridge(source), &grammar_, error.out());
    return std::string(error.view());
  }

  std::vector<uint32_t> Mask() {
    std::vector<uint32_t> words((rows_ + 31) / 32, ~0u);
    BridgeBuf error;
    EXPECT_EQ(peng_grammar_mask(grammar_, words.data(), words.size(), error.out()), 0) << error.view();
    return words;
  }

  bool Allowed(int32_t id) { return (Mask()[id / 32] >> (id % 32) & 1) != 0; }

  std::string Accept(const std::vector<int32_t>& ids) {
    BridgeBuf error;
    const std::vector<uint32_t> raw(ids.begin(), ids.end());
    peng_grammar_accept(grammar_, raw.data(), raw.size(), error.out());
    return std::string(error.view());
  }

  int32_t Id(std::string_view piece) { return *tokenizer_->TokenId(piece); }

  std::shared_ptr<const Tokenizer> tokenizer_ = LoadHfTokenizer("smollm2", R"({"eos_token": "<|im_end|>"})");
  size_t rows_ = 0;
  PengGrammarFactory* factory_ = nullptr;
  PengGrammar* grammar_ = nullptr;
};

TEST_F(GrammarBridgeTest, JsonSchema) {
  ASSERT_EQ(Compile("json_schema", R"({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                                       "additionalProperties": false})"),
            "");
  EXPECT_TRUE(Allowed(Id("{")));
  EXPECT_FALSE(Allowed(Id("a")));
  EXPECT_FALSE(Allowed(*tokenizer_->eos_id()));
  for (size_t row = tokenizer_->vocab_size(); row < rows_; ++row) EXPECT_FALSE(Allowed(static_cast<int32_t>(row)));
  EXPECT_EQ(Accept(tokenizer_->Encode("{\"n\": 12", false)), "");
  EXPECT_TRUE(Allowed(Id("3")));
  EXPECT_TRUE(Allowed(Id("}")));
  EXPECT_FALSE(Allowed(*tokenizer_->eos_id()));
  EXPECT_EQ(Accept({Id("}")}), "");
  EXPECT_TRUE(Allowed(*tokenizer_->eos_id()));
  EXPECT_EQ(peng_grammar_state(grammar_) & 1, 1);
}

TEST_F(GrammarBridgeTest, RollbackAndClone) {
  ASSERT_EQ(Compile("regex", "ab[cd]"), "");
  EXPECT_EQ(Accept({Id("a"), Id("b")}), "");
  PengGrammar* copy = nullptr;
  BridgeBuf error;
  ASSERT_EQ(peng_grammar_clone(grammar_, &copy, error.out()), 0);
  EXPECT_EQ(Accept({Id("c")}), "");
  EXPECT_FALSE(Allowed(Id("d")));
  EXPECT_EQ(peng_grammar_rollback(grammar_, 1, error.out()), 0) << error.view();
  EXPECT_TRUE(Allowed(Id("d")));
  EXPECT_EQ(peng_grammar_rollback(grammar_, 1, error.out()), 0) << error.view();
  EXPECT_FALSE(Allowed(Id("d")));
  std::swap(grammar_, copy);
  EXPECT_TRUE(Allowed(Id("d")));
  peng_grammar_free(copy);
}

TEST_F(GrammarBridgeTest, Lark) {
  ASSERT_EQ(Compile("lark", "start: \"yes\" | \"no\""), "");
  EXPECT_TRUE(Allowed(Id("n")));
  EXPECT_FALSE(Allowed(Id("m")));
  const std::vector<uint32_t> ids = {static_cast<uint32_t>(Id("n")), static_cast<uint32_t>(Id("m"))};
  EXPECT_EQ(peng_grammar_validate(grammar_, ids.data(), ids.size(), nullptr), 1);
}

TEST_F(GrammarBridgeTest, RefusalsAreMessages) {
  EXPECT_NE(Compile("json_schema", "{\"type\": 5}"), "");
  EXPECT_NE(Compile("json_schema", "{"), "");
  EXPECT_NE(Compile("regex", "a("), "");
  EXPECT_NE(Compile("lark", "start: x"), "");
  EXPECT_NE(Compile("nothing", "x"), "");
  ASSERT_EQ(Compile("regex", "ab"), "");
  EXPECT_NE(Accept({Id("x")}), "");
}

}  // namespace
}  // namespace peng::text
