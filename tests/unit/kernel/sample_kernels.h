#pragma once

// Kernels that several tests share.

namespace aicf::testing {

/// out = x * y + 1 over n elements, 64 a work item, tails guarded.
inline constexpr const char* elementwise = R"(kernel scaled work_items (n + 63) // 64 subgroup 8 x 2
  symbols n
  for i_tile in grid: base i = workgroup * 64
  buffer X: f32[n]
  buffer Y: f32[n]
  buffer out: f32[n] written
  tile x: f32[i=64] registers i(reg 4, lane 8 @1 stride 4, subgroup 2 @1 stride 32)
  tile y: f32[i=64] registers i(reg 4, lane 8 @1 stride 4, subgroup 2 @1 stride 32)
  tile r: f32[i=64] registers i(reg 4, lane 8 @1 stride 4, subgroup 2 @1 stride 32)
  load x <- X[i] if i < n else 0.0 width 4
  load y <- Y[i] if i < n else 0.0 width 4
  r = x * y + 1.0
  store out[i] <- r = r if i < n width 4
)";

/// Row softmax of [rows, cols]: 8 lanes = 2 rows x 4 lanes along cols; online over tiles of 8 columns, merged at the
/// end.
inline constexpr const char* softmax = R"(kernel softmax work_items (rows + 1) // 2 subgroup 8 x 1
  symbols rows, cols
  for r_tile in grid: base r = workgroup * 2
  buffer X: f32[rows, cols]
  buffer out: f32[rows, cols] written
  tile x: f32[r=2, c=8] registers c(lane 4 @1 stride 1, reg 2 stride 4) r(lane 2 @4 stride 1)
  tile m: f32[r=2] registers r(lane 2 @4 stride 1)
  tile m_next: f32[r=2] registers r(lane 2 @4 stride 1)
  tile l: f32[r=2] registers r(lane 2 @4 stride 1)
  tile y: f32[r=2, c=8] registers c(lane 4 @1 stride 1, reg 2 stride 4) r(lane 2 @4 stride 1)
  m = -inf
  l = 0.0
  for c_tile in 0 .. cols step 8: base c = c_tile
    load x <- X[r, c] if r < rows and c < cols else -inf
    m_next = m
    m_next maxnum= x over c
    l = where(m_next == -inf, 0.0, l * exp(m - m_next))
    l += where(m_next == -inf, 0.0, exp(x - m_next)) over c
    m = m_next
  cross m, l lanes 1, 2: m = maxnum(a.m, b.m); l = where(a.m == -inf, 0.0, a.l * exp(a.m - maxnum(a.m, b.m))) + where(b.m == -inf, 0.0, b.l * exp(b.m - maxnum(a.m, b.m)))
  for c_tile in 0 .. cols step 8: base c = c_tile
    load x <- X[r, c] if r < rows and c < cols else 0.0
    y = exp(x - m) / l
    store out[r, c] <- y = y if r < rows and c < cols
)";

/// C[m, n] = A[m, k] B[k, n]: rows over lanes, B's tile spread over the lanes and broadcast at use.
inline constexpr const char* broadcast_matmul =
    R"(kernel matmul work_items (M + 15) // 16 * ((N + 3) // 4) subgroup 8 x 1
  symbols M, N, K
  for m_tile in grid: base m = workgroup // ((N + 3) // 4) * 16
  for n_tile in grid: base n = workgroup % ((N + 3) // 4) * 4
  buffer A: f32[M, K]
  buffer B: f32[K, N]
  buffer C: f32[M, N] written
  tile a: f32[m=16, k=8] registers k(reg 8) m(lane 8 @1 stride 1, reg 2 stride 8)
  tile b: f32[k=8, n=4] registers n(reg 2, lane 2 @1 stride 2) k(lane 4 @2 stride 1, reg 2 stride 4)
  tile c: f32[m=16, n=4] registers n(reg 4) m(lane 8 @1 stride 1, reg 2 stride 8)
  c = 0.0
  for k_tile in 0 .. K step 8: base k = k_tile
    load a <- A[m, k] if m < M and k < K else 0.0
    load b <- B[k, n] if k < K and n < N else 0.0
    c += a * b over k
  store C[m, n] <- c = c if m < M and n < N
)";

/// The same product by 2 subgroups, A and B staged in workgroup memory; K = 32 and N = 8 are constants.
inline constexpr const char* staged_matmul = R"(kernel staged work_items (M + 31) // 32 subgroup 8 x 2
  symbols M
  for m_tile in grid: base m = workgroup * 32
  buffer A: f32[M, 32]
  buffer B: f32[32, 8]
  buffer C: f32[M, 8] written
  tile a_stage: f32[m=32, k=8] registers k(reg 4, lane 2 @1 stride 4) m(lane 4 @2 stride 1, subgroup 2 @1 stride 4, reg 4 stride 8)
  tile b_stage: f32[k=8, n=8] registers n(reg 4, lane 2 @1 stride 4) k(lane 4 @2 stride 1, subgroup 2 @1 stride 4)
  tile a: f32[m=32, k=8] workgroup pad 4
  tile b: f32[k=8, n=8] workgroup
  tile c: f32[m=32, n=8] registers m(reg 2, lane 8 @1 stride 2, subgroup 2 @1 stride 16) n(reg 8)
  c = 0.0
  for k_tile in 0 .. 32 step 8: base k = k_tile
    load a_stage <- A[m, k] if m < M else 0.0 width 4
    load b_stage <- B[k, n] width 4
    barrier
    stage a <- a_stage
    stage b <- b_stage
    barrier
    c += a * b over k  # product
  store C[m, n] <- c = c if m < M width 4
)";

/// Causal attention of one head, d = e = 8: 8 rows over lanes in 2 blocks, 2 keys a step, K and V spread over the
/// lanes.
inline constexpr const char* attention = R"(kernel attention work_items (n + 15) // 16 subgroup 8 x 1
  symbols n
  for q_tile in grid: base q = workgroup * 16
  buffer Q: f32[n, 8]
  buffer K: f32[n, 8]
  buffer V: f32[n, 8]
  buffer out: f32[n, 8] written
  tile q: f32[q=16, d=8] registers d(reg 8) q(lane 8 @1 stride 1, reg 2 stride 8)
  tile k: f32[kv=2, d=8] registers d(reg 2, lane 4 @1 stride 2) kv(lane 2 @4 stride 1)
  tile v: f32[kv=2, e=8] registers e(reg 2, lane 4 @1 stride 2) kv(lane 2 @4 stride 1)
  tile s: f32[q=16, kv=2] registers kv(reg 2) q(lane 8 @1 stride 1, reg 2 stride 8)
  tile p: f32[q=16, kv=2] registers kv(reg 2) q(lane 8 @1 stride 1, reg 2 stride 8)
  tile m: f32[q=16] registers q(lane 8 @1 stride 1, reg 2 stride 8)
  tile m_next: f32[q=16] registers q(lane 8 @1 stride 1, reg 2 stride 8)
  tile scale: f32[q=16] registers q(lane 8 @1 stride 1, reg 2 stride 8)
  tile l: f32[q=16] registers q(lane 8 @1 stride 1, reg 2 stride 8)
  tile o: f32[q=16, e=8] registers e(reg 8) q(lane 8 @1 stride 1, reg 2 stride 8)
  load q <- Q[q, d] if q < n else 0.0 width 4
  m = -inf
  l = 0.0
  o = 0.0
  for kv_tile in 0 .. min(n, q + 16) step 2: base kv = kv_tile
    load k <- K[kv, d] if kv < n else 0.0 width 2
    load v <- V[kv, e] if kv < n else 0.0 width 2
    s = 0.0
    s += q * k over d  # score
    s = where(kv <= axis.q and kv < n, s * 0.5, -inf)
    m_next = m
    m_next maxnum= s over kv  # update
    scale = exp(m - m_next)
    l = l * scale
    o = o * scale
    p = exp(s - m_next)
    l += p over kv
    o += p * v over kv  # accumulate
    m = m_next
  store out[q, e] <- o = o / l if q < n width 4
)";

/// One query row against n keys, d = e = 4: 2 subgroups of 4 lanes split the keys, partial states are merged.
inline constexpr const char* decode = R"(kernel decode work_items 1 subgroup 4 x 2
  symbols n
  buffer Q: f32[4]
  buffer K: f32[n, 4]
  buffer V: f32[n, 4]
  buffer out: f32[4] written
  tile q: f32[d=4] registers d(reg 4)
  tile k: f32[kv=16, d=4] registers d(reg 4) kv(lane 4 @1 stride 1, subgroup 2 @1 stride 4, reg 2 stride 8)
  tile v: f32[kv=16, e=4] registers e(reg 4) kv(lane 4 @1 stride 1, subgroup 2 @1 stride 4, reg 2 stride 8)
  tile s: f32[kv=16] registers kv(lane 4 @1 stride 1, subgroup 2 @1 stride 4, reg 2 stride 8)
  tile p: f32[kv=16] registers kv(lane 4 @1 stride 1, subgroup 2 @1 stride 4, reg 2 stride 8)
  tile m: f32[] registers
  tile m_next: f32[] registers
  tile l: f32[] registers
  tile o: f32[e=4] registers e(reg 4)
  load q <- Q[d] width 4
  m = -inf
  l = 0.0
  o = 0.0
  for kv_tile in 0 .. n step 16: base kv = kv_tile
    load k <- K[kv, d] if kv < n else 0.0 width 4
    load v <- V[kv, e] if kv < n else 0.0 width 4
    s = 0.0
    s += q * k over d
    s = where(kv < n, s, -inf)
    m_next = m
    m_next maxnum= s over kv
    l = where(m_next == -inf, 0.0, l * exp(m - m_next))
    o = where(m_next == -inf, 0.0, o * exp(m - m_next))
    p = where(m_next == -inf, 0.0, exp(s - m_next))
    l += p over kv
    o += p * v over kv
    m = m_next
  cross m, l, o lanes 1, 2 subgroups 1: m = maxnum(a.m, b.m); l = where(a.m == -inf, 0.0, exp(a.m - maxnum(a.m, b.m)) * a.l) + where(b.m == -inf, 0.0, exp(b.m - maxnum(a.m, b.m)) * b.l); o = where(a.m == -inf, 0.0, exp(a.m - maxnum(a.m, b.m)) * a.o) + where(b.m == -inf, 0.0, exp(b.m - maxnum(a.m, b.m)) * b.o)
  store out[e] <- o = o / l width 4
)";

}  // namespace aicf::testing
