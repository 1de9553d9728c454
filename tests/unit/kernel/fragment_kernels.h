#pragma once

// Kernels on matrix fragments that several tests share.

namespace aicf::testing {

/// C[16, 8] = C0 + A[16, 16] B[16, 8] by one product of documented layout.
inline constexpr const char* named = R"(kernel named work_items 1 subgroup 32 x 1
  buffer A: f16[16, 16]
  buffer B: f16[16, 8]
  buffer C0: f32[16, 8]
  buffer C: f32[16, 8] written
  tile a: f16[m=16, k=16] registers k(reg 2) m(reg 2 stride 8) k(reg 2 stride 8, lane 4 @1 stride 2) m(lane 8 @4 stride 1)
  tile b: f16[k=16, n=8] registers k(reg 2, reg 2 stride 8, lane 4 @1 stride 2) n(lane 8 @4 stride 1)
  tile c: f32[m=16, n=8] registers n(reg 2) m(reg 2 stride 8) n(lane 4 @1 stride 2) m(lane 8 @4 stride 1)
  load a <- A[m, k] width 2
  load b <- B[k, n]
  load c <- C0[m, n] width 2
  multiply c += a * b unit m16n8k16
  store C[m, n] <- c = c width 2
)";

/// The same of 2 x 2 x 2 blocks for 2 subgroups, layouts unknown; B is transposed in memory.
inline constexpr const char* blocked = R"(kernel blocked work_items rows // 64 subgroup 8 x 2
  symbols rows
  for m_tile in grid: base m = workgroup * 64
  buffer A: f16[rows, 32]
  buffer B: f16[16, 32]
  buffer C0: f32[rows, 16]
  buffer C: f32[rows, 16] written
  tile a: f16[m=64, k=32] fragment m16n8k16.a m(reg 2 stride 16, subgroup 2 @1 stride 32) k(reg 2 stride 16)
  tile b: f16[k=32, n=16] fragment m16n8k16.b k(reg 2 stride 16) n(reg 2 stride 8)
  tile c: f32[m=64, n=16] fragment m16n8k16.c m(reg 2 stride 16, subgroup 2 @1 stride 32) n(reg 2 stride 8)
  load a <- A[m, k]
  load b <- B[n, k]
  load c <- C0[m, n]
  multiply c += a * b unit m16n8k16
  store C[m, n] <- c = c
)";

/// C = A B over a loop along k, rows of a symbolic stride, one block of C for each work item.
inline constexpr const char* looped = R"(kernel looped work_items rows // 16 subgroup 16 x 1
  symbols rows, depth
  for m_tile in grid: base m = workgroup * 16
  buffer A: f16[rows, depth]
  buffer B: f16[depth, 8]
  buffer C: f32[rows, 8] written
  tile a: f16[m=16, k=16] fragment m16n8k16.a
  tile b: f16[k=16, n=8] fragment m16n8k16.b
  tile c: f32[m=16, n=8] fragment m16n8k16.c
  c = 0.0
  for k_tile in 0 .. depth step 16: base k = k_tile
    load a <- A[m, k]
    load b <- B[k, n]
    multiply c += a * b unit m16n8k16  # product
  store C[m, n] <- c = c
)";

/// C = diag(R) A B + A B: the accumulator's rows are scaled between two products.
inline constexpr const char* named_repair = R"(kernel repaired work_items 1 subgroup 32 x 1
  buffer A: f16[16, 16]
  buffer B: f16[16, 8]
  buffer R: f32[16]
  buffer C: f32[16, 8] written
  tile a: f16[m=16, k=16] registers k(reg 2) m(reg 2 stride 8) k(reg 2 stride 8, lane 4 @1 stride 2) m(lane 8 @4 stride 1)
  tile b: f16[k=16, n=8] registers k(reg 2, reg 2 stride 8, lane 4 @1 stride 2) n(lane 8 @4 stride 1)
  tile r: f32[m=16] registers m(lane 8 @4 stride 1, reg 2 stride 8)
  tile c: f32[m=16, n=8] registers n(reg 2) m(reg 2 stride 8) n(lane 4 @1 stride 2) m(lane 8 @4 stride 1)
  load a <- A[m, k] width 2
  load b <- B[k, n]
  load r <- R[m]
  c = 0.0
  multiply c += a * b unit m16n8k16
  c = c * r
  multiply c += a * b unit m16n8k16
  store C[m, n] <- c = c width 2
)";

/// The same with opaque fragments: rows are scaled in registers of a known layout, there and back by workgroup memory.
inline constexpr const char* opaque_repair = R"(kernel repaired work_items 1 subgroup 8 x 1
  buffer A: f16[16, 16]
  buffer B: f16[16, 8]
  buffer R: f32[16]
  buffer C: f32[16, 8] written
  tile a: f16[m=16, k=16] fragment m16n8k16.a
  tile b: f16[k=16, n=8] fragment m16n8k16.b
  tile c: f32[m=16, n=8] fragment m16n8k16.c
  tile r: f32[m=16] registers m(lane 8 @1 stride 1, reg 2 stride 8)
  tile rows: f32[m=16, n=8] registers n(reg 8) m(lane 8 @1 stride 1, reg 2 stride 8)
  tile w: f32[m=16, n=8] workgroup pad 4
  load a <- A[m, k]
  load b <- B[k, n]
  load r <- R[m]
  c = 0.0
  multiply c += a * b unit m16n8k16
  stage w <- c
  barrier
  fetch rows <- w
  rows = rows * r
  barrier
  stage w <- rows
  barrier
  fetch c <- w
  multiply c += a * b unit m16n8k16
  store C[m, n] <- c = c
)";

/// c = 2 c - d / s with a scalar that every lane holds; stored transposed.
inline constexpr const char* maps = R"(kernel maps work_items 1 subgroup 4 x 1
  symbols n
  buffer C0: f32[8, 8]
  buffer S: f32[1]
  buffer C: f32[8, 8] written
  tile c: f32[i=8, j=8] fragment m8n8k16.c
  tile d: f32[i=8, j=8] fragment m8n8k16.c
  tile s: f32[] registers
  load s <- S[0]
  load c <- C0[i, j]
  d = 6.0
  c = c * f32(n) - d / s
  store C[j, i] <- c = c
)";

}  // namespace aicf::testing
