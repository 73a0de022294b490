// SPDX-License-Identifier: Apache-2.0
#include "base/vllm_flags.h"

#include <algorithm>
#include <string>

namespace peng::base {
namespace {

constexpr VllmFlags kTable[] = {
    // The model and its files.
    {"tokenizer tokenizer-mode tokenizer-revision skip-tokenizer-init",
     "the tokenizer is the one of the model's folder or GGUF file; leave it out"},
    {"trust-remote-code code-revision", "peng runs no code of models; leave it out"},
    {"load-format config-format model-impl hf-config-path", "peng sees from the files what they are; leave it out"},
    {"safetensors-load-strategy model-loader-extra-config use-tqdm-on-load pt-load-map-location ignore-patterns",
     "weights are read in one way, from the mapped file; leave it out"},
    {"download-dir", "set PENG_HOME to the folder for models"},
    {"hf-token", "set the environment variable HF_TOKEN"},
    {"hf-overrides rope-scaling rope-theta", "edit the model's config.json"},
    {"override-generation-config", "send the values in requests, or edit the model's generation_config.json"},
    {"quantization q allow-deprecated-quantization",
     "weights are computed in the format of their file; name a quantized file and leave it out"},
    {"task runner convert override-pooler-config pooler-config io-processor-plugin",
     "peng generates text only; leave it out"},
    {"disable-sliding-window", "peng has no model with a sliding window; leave it out"},
    // How steps are computed.
    {"enforce-eager compilation-config optimization-level O cuda-graph-sizes max-cudagraph-capture-size "
     "max-seq-len-to-capture",
     "peng compiles and captures nothing at run time; leave it out"},
    {"attention-backend attention-config disable-cascade-attn kernel-config",
     "the kernels are chosen from what the CPU has; --max-isa caps the choice"},
    {"device", "peng computes on the CPU; leave it out"},
    {"additional-config worker-cls worker-extension-cls scheduler-cls logits-processors middleware",
     "peng loads no Python code; leave it out, or put a proxy in front"},
    {"enable-sleep-mode weight-transfer-config", "the weights of a server stay as they are; start it again"},
    // Parallelism.
    {"tensor-parallel-size tp numa-bind numa-bind-nodes numa-bind-cpus",
     "one process uses every core and memory node that it may; leave it out, --cpu-threads sets the cores"},
    {"pipeline-parallel-size pp nnodes n node-rank r master-addr master-port distributed-executor-backend "
     "ray-workers-use-nsight max-parallel-loading-workers distributed-timeout-seconds disable-custom-all-reduce",
     "a model is served by one process on one machine; leave it out"},
    {"data-parallel-size dp data-parallel-rank dpn data-parallel-start-rank dpr data-parallel-size-local dpl "
     "data-parallel-address dpa data-parallel-rpc-port dpp data-parallel-backend dpb data-parallel-hybrid-lb dph "
     "data-parallel-external-lb dpe headless api-server-count asc",
     "one process serves all connections; start more of them behind a balancer"},
    {"decode-context-parallel-size dcp prefill-context-parallel-size pcp dcp-kv-cache-interleave-size",
     "contexts are not split; leave it out"},
    {"enable-expert-parallel ep enable-eplb eplb-config expert-placement-strategy all2all-backend enable-dbo "
     "dbo-decode-token-threshold dbo-prefill-token-threshold enable-elastic-ep",
     "peng has no mixture-of-experts models yet; leave it out"},
    // Memory and cache.
    {"swap-space cpu-offload-gb cpu-offload-params kv-offloading-size kv-offloading-backend",
     "all memory is the CPU's already; --kv-cache-memory-bytes sets the cache"},
    {"num-gpu-blocks-override", "use --kv-cache-memory-bytes"},
    {"calculate-kv-scales kv-cache-dtype-skip-layers",
     "the KV cache has no scales; --kv-cache-dtype names its element type"},
    {"prefix-caching-hash-algo", "prefixes are found by SHA-256; leave it out"},
    {"kv-sharing-fast-prefill mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size mamba-cache-mode "
     "disable-hybrid-kv-cache-manager",
     "peng has no model of that kind; leave it out"},
    {"kv-transfer-config kv-events-config ec-transfer-config", "caches are not shared between servers; leave it out"},
    // Scheduling.
    {"enable-chunked-prefill async-scheduling num-scheduler-steps multi-step-stream-outputs scheduler-delay-factor",
     "prompts are always computed in pieces, one step ahead; leave it out"},
    {"preemption-mode use-v2-block-manager num-lookahead-slots watermark "
     "scheduler-reserve-full-isl",
     "the scheduler decides; --max-num-seqs and --max-num-batched-tokens bound it"},
    {"stream-interval", "every token is sent when it is there; leave it out"},
    // Logs and metrics.
    {"disable-log-requests", "requests are not logged unless --enable-log-requests is set; leave it out"},
    {"disable-log-stats kv-cache-metrics kv-cache-metrics-sample enable-mfu-metrics cudagraph-metrics "
     "show-hidden-metrics-for-version aggregate-engine-logging enable-logging-iteration-details "
     "enable-layerwise-nvtx-tracing enable-server-load-tracking",
     "figures are at /metrics only; leave it out"},
    {"enable-log-outputs enable-log-deltas max-log-len", "use --log-prompts, which logs prompts and replies whole"},
    {"uvicorn-log-level log-config-file log-error-stack", "use --log-level and --log-format"},
    {"disable-uvicorn-access-log disable-access-log-for-endpoints", "peng writes no access log; leave it out"},
    {"otlp-traces-endpoint collect-detailed-traces profiler-config", "peng writes no traces; leave it out"},
    // The server.
    {"grpc grpc-port", "peng serves HTTP only"},
    {"disable-fastapi-docs enable-offline-docs", "peng serves no API documentation pages; leave it out"},
    {"enable-tokenizer-info-endpoint tokens-only", "peng has /tokenize and /detokenize only; leave it out"},
    {"disable-frontend-multiprocessing", "peng is one process; leave it out"},
    {"enable-request-id-headers", "every reply has an X-Request-Id; leave it out"},
    {"response-role", "replies have the role assistant; leave it out"},
    {"return-tokens-as-token-ids", "send return_token_ids in requests"},
    {"chat-template-content-format", "contents are passed as the template needs them; leave it out"},
    {"default-chat-template-kwargs", "send chat_template_kwargs in requests"},
    {"trust-request-chat-template", "templates of requests are refused; use --chat-template"},
    // What peng cannot do yet.
    {"enable-auto-tool-choice tool-call-parser tool-parser-plugin exclude-tools-when-tool-choice-none tool-server",
     "peng does not call tools yet; leave it out"},
    {"reasoning-parser reasoning-parser-plugin reasoning-config enable-reasoning",
     "peng does not tell reasoning from the reply yet; leave it out"},
    {"structured-outputs-config guided-decoding-backend guided-decoding-disable-fallback",
     "peng has no structured outputs yet; leave it out"},
    {"speculative-config speculative-model num-speculative-tokens",
     "peng has no speculative decoding yet; leave it out"},
    {"enable-lora lora-modules lora-dtype lora-target-modules max-loras max-lora-rank max-cpu-loras "
     "fully-sharded-loras default-mm-loras enable-tower-connector-lora specialize-active-lora enable-prompt-adapter "
     "prompt-adapters",
     "peng has no adapters yet; merge them into the weights"},
    {"limit-mm-per-prompt media-io-kwargs mm-processor-kwargs mm-processor-cache-gb mm-processor-cache-type "
     "mm-encoder-tp-mode mm-encoder-attn-backend mm-encoder-only mm-shm-cache-max-object-size-mb "
     "disable-chunked-mm-input disable-mm-preprocessor-cache enable-mm-embeds enable-prompt-embeds "
     "interleave-mm-strings skip-mm-profiling video-pruning-rate allowed-local-media-path allowed-media-domains "
     "language-model-only",
     "peng takes text only; leave it out"},
    {"logprobs-mode", "log probabilities are those of the raw logits; leave it out"},
};

bool Has(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

std::span<const VllmFlags> VllmFlagTable() { return kTable; }

std::string_view ReasonAgainst(std::string_view name) {
  std::string dashed(name.substr(0, name.find('.')));
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const std::string_view without_no = std::string_view(dashed).starts_with("no-") ? dashed.c_str() + 3 : dashed.c_str();
  for (const VllmFlags& flags : kTable) {
    if (Has(flags.names, dashed) || Has(flags.names, without_no)) return flags.instead;
  }
  return "";
}

}  // namespace peng::base
