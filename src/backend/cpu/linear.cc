// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/linear.h"

#include <algorithm>

#include "base/check.h"

namespace peng::backend::cpu {
namespace {

// Input rows of one pass stay in a core's second-level cache beside a tile of weights.
constexpr int64_t kBlockLhsBytes = 192 << 10;
constexpr int kMinBlockRows = 16;
constexpr int kMaxBlockRows = 256;
// Up to this many rows a call is bound by reading the weights: each lane reads one contiguous part.
constexpr int kStreamingRows = 8;
// Products of fewer multiplications than this are not worth waking other threads for.
constexpr int64_t kInlineProducts = 32 << 10;
// Quantizing fewer values than this is not worth a second phase.
constexpr int64_t kInlineQuantize = 8 << 10;
// Tiles that a lane takes at a time.
constexpr int kGroupTiles = 4;
// The same of a gated product of few rows, whose two products are kept in a buffer.
constexpr int kStreamingGatedTiles = 32;

// Rows a power of two apart would fall into the same few cache sets.
int64_t SpreadStride(int64_t bytes) { return bytes % 1024 == 0 ? bytes + 64 : bytes; }

}  // namespace

CpuLinear::CpuLinear(base::ThreadPool& pool, const VectorKernels& vector)
    : pool_(pool),
      vector_(vector),
      queue_(pool.num_shards()),
      worker_scratch_(pool.num_workers()),
      worker_products_(pool.num_workers()),
      segments_(pool.num_shards()) {}

void CpuLinear::AddSegments(const CpuMatrix& matrix, const float* bias, Tensor out) {
  for (int s = 0; s < pool_.num_shards(); ++s) {
    for (const PackedRows& rows : matrix.shard_rows(s)) {
      Segment segment;
      segment.matrix = &matrix;
      segment.rows = &rows;
      segment.bias = bias == nullptr ? nullptr : bias + rows.row_begin;
      segment.out = out.Cols(rows.row_begin, rows.row_end);
      segments_[s].push_back(segment);
    }
  }
}

void CpuLinear::Linear(Tensor x, int num_prompt_rows, std::span<const LinearPart> parts) {
  for (auto& shard : segments_) shard.clear();
  for (const LinearPart& part : parts) {
    PENG_CHECK(part.weight->cols() == x.cols && part.out.rows == x.rows && part.out.cols == part.weight->rows());
    const auto* bias = static_cast<const CpuVector*>(part.bias);
    AddSegments(static_cast<const CpuMatrix&>(*part.weight), bias == nullptr ? nullptr : bias->data(), part.out);
  }
  Compute(x, num_prompt_rows);
}

void CpuLinear::GateUpSwiGlu(Tensor x, int num_prompt_rows, const CpuMatrix& gate, const CpuMatrix& up, Tensor out) {
  for (auto& shard : segments_) shard.clear();
  AddSegments(gate, nullptr, out);
  for (int s = 0; s < pool_.num_shards(); ++s) {
    for (size_t i = 0; i < segments_[s].size(); ++i) {
      segments_[s][i].up = &up;
      segments_[s][i].up_rows = &up.shard_rows(s)[i];
    }
  }
  Compute(x, num_prompt_rows);
}

void CpuLinear::Compute(Tensor x, int num_prompt_rows) {
  if (x.rows == 0) return;
  PENG_CHECK(x.dtype == tensor::DType::kF32 && num_prompt_rows >= 0 && num_prompt_rows <= x.rows);
  x_ = x;
  num_prompt_rows_ = num_prompt_rows;
  quantizer_[0] = quantizer_[1] = nullptr;
  int64_t products = 0;
  for (const auto& shard : segments_) {
    for (const Segment& segment : shard) {
      products += x.rows * x.cols * (segment.rows->row_end - segment.rows->row_begin);
      for (const CpuMatrix* matrix : {segment.matrix, segment.up}) {
        if (matrix == nullptr) continue;
        for (Phase phase : {Phase::kPrompt, Phase::kGenerated}) {
          const LinearKernel*& quantizer = quantizer_[static_cast<int>(phase)];
          if (quantizer == nullptr && matrix->kernel(phase).lhs == LhsType::kA8G32) quantizer = &matrix->kernel(phase);
        }
      }
    }
  }
  const bool quantize = quantizer_[0] != nullptr || quantizer_[1] != nullptr;
  lhs_stride_ = SpreadStride(A8G32Row{x.cols}.bytes());
  if (quantize) lhs_ = quantized_.Get(lhs_stride_ * x.rows);
  const int64_t row_bytes = quantize ? lhs_stride_ : x.cols * static_cast<int64_t>(sizeof(float));
  block_rows_ = static_cast<int>(std::clamp<int64_t>(kBlockLhsBytes / row_bytes, kMinBlockRows, kMaxBlockRows));

  const RowRange all{0, static_cast<int>(x.rows)};
  const bool quantize_here = quantize && x.rows * x.cols <= kInlineQuantize;
  if (quantize_here) QuantizeRows(all);
  if (products <= kInlineProducts && (quantize_here || !quantize)) {
    for (const auto& shard : segments_) {
      for (const Segment& segment : shard) ComputeTiles({&segment, 0, segment.rows->num_tiles()}, all, 0);
    }
    return;
  }
  queue_.Reset();
  pool_.Run([&](const base::WorkerId& id) {
    if (quantize && !quantize_here) {
      const base::IndexRange r = base::SplitRange(static_cast<size_t>(x.rows), 1, id.index, id.num_workers);
      QuantizeRows({static_cast<int>(r.begin), static_cast<int>(r.end)});
      pool_.Sync(id);
    }
    x.rows <= kStreamingRows ? RunByBytes(id) : RunByBlocks(id);
  });
}

void CpuLinear::QuantizeRows(RowRange rows) {
  for (int i = rows.begin; i < rows.end; ++i) {
    const LinearKernel* quantizer = quantizer_[i < num_prompt_rows_ ? 0 : 1];
    if (quantizer == nullptr) continue;
    quantizer->quantize_lhs(static_cast<const float*>(x_.data) + i * x_.stride, x_.cols,
                            const_cast<std::byte*>(lhs_) + i * lhs_stride_);
  }
}

// Few rows: the shard's bytes of weights are cut into one contiguous part per lane.
void CpuLinear::RunByBytes(const base::WorkerId& id) {
  const std::vector<Segment>& segments = segments_[id.shard];
  int64_t total = 0;
  for (const Segment& s : segments) total += s.rows->num_tiles() * s.matrix->tile_bytes();
  const int64_t begin = total * id.lane / id.num_lanes;
  const int64_t end = total * (id.lane + 1) / id.num_lanes;
  int64_t at = 0;
  for (const Segment& s : segments) {
    const int64_t tile_bytes = s.matrix->tile_bytes();
    const int n = s.rows->num_tiles();
    // The tile that a bound falls into goes to the later lane; both lanes round alike.
    const auto tile_at = [&](int64_t byte) {
      return static_cast<int>(std::clamp<int64_t>((byte - at + tile_bytes / 2) / tile_bytes, 0, n));
    };
    const int first = begin <= at ? 0 : tile_at(begin);
    const int last = end >= at + n * tile_bytes ? n : end <= at ? 0 : tile_at(end);
    if (first < last) ComputeTiles({&s, first, last}, {0, static_cast<int>(x_.rows)}, id.index);
    at += n * tile_bytes;
  }
}

// Many rows: units of a block of rows times a group of tiles, block by block, taken as lanes become free.
void CpuLinear::RunByBlocks(const base::WorkerId& id) {
  const std::vector<Segment>& segments = segments_[id.shard];
  int groups = 0;
  for (const Segment& s : segments) groups += (s.rows->num_tiles() + kGroupTiles - 1) / kGroupTiles;
  const int num_rows = static_cast<int>(x_.rows);
  const int blocks = (num_rows + block_rows_ - 1) / block_rows_;
  while (const auto unit = queue_.Next(id, static_cast<size_t>(groups) * blocks, 1)) {
    const int block = static_cast<int>(unit->begin) / groups;
    int group = static_cast<int>(unit->begin) % groups;
    const Segment* s = segments.data();
    for (;; ++s) {
      const int n = (s->rows->num_tiles() + kGroupTiles - 1) / kGroupTiles;
      if (group < n) break;
      group -= n;
    }
    const int tile = group * kGroupTiles;
    // Blocks of equal size: a short last one would waste its pass over the weights.
    const RowRange rows{num_rows * block / blocks, num_rows * (block + 1) / blocks};
    ComputeTiles({s, tile, std::min(tile + kGroupTiles, s->rows->num_tiles())}, rows, id.index);
  }
}

void CpuLinear::ComputeTiles(const Tiles& tiles, RowRange rows, int worker) {
  if (tiles.segment->up == nullptr) return ComputePlain(tiles, rows, worker);
  const int group = rows.end - rows.begin <= kStreamingRows ? kStreamingGatedTiles : kGroupTiles;
  for (int t = tiles.begin; t < tiles.end; t += group) {
    ComputeGated({tiles.segment, t, std::min(t + group, tiles.end)}, rows, worker);
  }
}

void CpuLinear::ComputePlain(const Tiles& tiles, RowRange rows, int worker) {
  const Segment& s = *tiles.segment;
  const std::byte* packed = s.rows->memory.data + tiles.begin * s.matrix->tile_bytes();
  const int64_t begin = int64_t{tiles.begin} * kTileRows;
  const auto out = [&](int row, int64_t col) { return static_cast<float*>(s.out.data) + row * s.out.stride + col; };
  const int whole = std::min<int>(tiles.end, static_cast<int>(s.out.cols / kTileRows)) - tiles.begin;
  if (whole > 0) Multiply(*s.matrix, packed, whole, rows, out(rows.begin, begin), s.out.stride, worker);
  if (begin + int64_t{whole} * kTileRows < std::min(s.out.cols, int64_t{tiles.end} * kTileRows)) {
    // The padded tile would write behind the columns of `out`.
    const int64_t col = begin + int64_t{whole} * kTileRows;
    float buffer[kMinBlockRows * kTileRows];
    for (int i = rows.begin; i < rows.end; i += kMinBlockRows) {
      const RowRange part{i, std::min(i + kMinBlockRows, rows.end)};
      Multiply(*s.matrix, packed + whole * s.matrix->tile_bytes(), 1, part, buffer, kTileRows, worker);
      for (int r = part.begin; r < part.end; ++r) {
        std::copy_n(buffer + (r - part.begin) * kTileRows, s.out.cols - col, out(r, col));
      }
    }
  }
  if (s.bias == nullptr) return;
  const int64_t cols = std::min(s.out.cols, int64_t{tiles.end} * kTileRows) - begin;
  for (int i = rows.begin; i < rows.end; ++i) vector_.add(out(i, begin), s.bias + begin, cols);
}

void CpuLinear::ComputeGated(const Tiles& tiles, RowRange rows, int worker) {
  const Segment& s = *tiles.segment;
  const int num_tiles = tiles.end - tiles.begin;
  const int64_t stride = int64_t{num_tiles} * kTileRows;
  float* gate = worker_products_[worker].Floats(2 * stride * (rows.end - rows.begin));
  float* up = gate + stride * (rows.end - rows.begin);
  Multiply(*s.matrix, s.rows->memory.data + tiles.begin * s.matrix->tile_bytes(), num_tiles, rows, gate, stride,
           worker);
  Multiply(*s.up, s.up_rows->memory.data + tiles.begin * s.up->tile_bytes(), num_tiles, rows, up, stride, worker);
  const int64_t col = int64_t{tiles.begin} * kTileRows;
  const int64_t cols = std::min(stride, s.out.cols - col);
  for (int i = rows.begin; i < rows.end; ++i) {
    const int64_t at = (i - rows.begin) * stride;
    vector_.swiglu(gate + at, up + at, cols, static_cast<float*>(s.out.data) + i * s.out.stride + col);
  }
}

void CpuLinear::Multiply(const CpuMatrix& matrix, const std::byte* packed, int num_tiles, RowRange rows, float* out,
                         int64_t out_stride, int worker) {
  const LinearKernel& prompt = matrix.kernel(Phase::kPrompt);
  const LinearKernel& generated = matrix.kernel(Phase::kGenerated);
  // One pass where both phases have the same kernel.
  const int split = &prompt == &generated ? rows.end : std::clamp(num_prompt_rows_, rows.begin, rows.end);
  if (rows.begin < split) Gemm(prompt, {rows.begin, split}, packed, num_tiles, out, out_stride, worker);
  if (split < rows.end) {
    Gemm(generated, {split, rows.end}, packed, num_tiles, out + (split - rows.begin) * out_stride, out_stride, worker);
  }
}

void CpuLinear::Gemm(const LinearKernel& kernel, RowRange rows, const std::byte* packed, int num_tiles, float* out,
                     int64_t out_stride, int worker) {
  const bool raw = kernel.lhs == LhsType::kF32;
  const int64_t stride = raw ? x_.stride * static_cast<int64_t>(sizeof(float)) : lhs_stride_;
  const std::byte* lhs = (raw ? static_cast<const std::byte*>(x_.data) : lhs_) + rows.begin * stride;
  const auto scratch_bytes = static_cast<int64_t>(kernel.scratch_bytes == nullptr ? 0 : kernel.scratch_bytes(x_.cols));
  kernel.gemm({lhs, stride, rows.end - rows.begin, packed, num_tiles, x_.cols, out, out_stride,
               worker_scratch_[worker].Get(scratch_bytes)});
}

}  // namespace peng::backend::cpu
