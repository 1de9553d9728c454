// attention_0: 32 threads (1 x 32) a workgroup, 1 workgroups
//   reads in0: f32[8, 4]
//   reads in1: f32[11, 4]
//   reads in2: f32[8, 11]
//   reads in3: f32[11, 4]
//   writes out0: f32[8, 4]

extern "C" __global__ void AICF_LAUNCH_BOUNDS(32, 1)
attention_0(const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, const float* __restrict__ in3, float* __restrict__ out0, int workgroup_count) {
  const int workgroup = aicf_workgroup();
  if (workgroup >= workgroup_count) return;
  const int lane = aicf_lane();
  int base_q = 8 * workgroup;
  float q_0, q_1, q_2, q_3;
  int q_at = base_q + (lane & 7);
  int in0_at = 4 * q_at;
  aicf_ld_global4(in0, in0_at, q_0, q_1, q_2, q_3);
  float m = -aicf_inf();
  float l = 0.0f;
  float o_0 = 0.0f;
  float o_1 = 0.0f;
  float o_2 = 0.0f;
  float o_3 = 0.0f;
  for (int kv_tile = 0; kv_tile < 11; kv_tile += 4) {
    int base_kv = kv_tile;
    float m_old = m;
    float score_0 = 0.0f;
    float score_1 = 0.0f;
    float score_2 = 0.0f;
    float score_3 = 0.0f;
    float k_0, k_1, k_2, k_3, k_4, k_5, k_6, k_7, k_8, k_9, k_10, k_11, k_12, k_13, k_14, k_15;
    int in1_at = 4 * base_kv;
    aicf_ld_global4(in1, in1_at, k_0, k_1, k_2, k_3);
    aicf_ld_global4(in1, in1_at + 4, k_4, k_5, k_6, k_7);
    aicf_ld_global4(in1, in1_at + 8, k_8, k_9, k_10, k_11);
    bool t = base_kv + 3 <= 10;
    k_12 = k_13 = k_14 = k_15 = 0.0f;
    if (t) {
      aicf_ld_global4(in1, in1_at + 12, k_12, k_13, k_14, k_15);
    }
    // score
    score_0 += q_0 * k_0;
    score_1 += q_0 * k_4;
    score_2 += q_0 * k_8;
    score_3 += q_0 * k_12;
    score_0 += q_1 * k_1;
    score_1 += q_1 * k_5;
    score_2 += q_1 * k_9;
    score_3 += q_1 * k_13;
    score_0 += q_2 * k_2;
    score_1 += q_2 * k_6;
    score_2 += q_2 * k_10;
    score_3 += q_2 * k_14;
    score_0 += q_3 * k_3;
    score_1 += q_3 * k_7;
    score_2 += q_3 * k_11;
    score_3 += q_3 * k_15;
    float x0_0, x0_1, x0_2, x0_3;
    int in2_at = 11 * q_at + base_kv;
    x0_0 = aicf_ld_global(in2, in2_at);
    x0_1 = aicf_ld_global(in2, in2_at + 1);
    x0_2 = aicf_ld_global(in2, in2_at + 2);
    x0_3 = 0.0f;
    if (t) {
      x0_3 = aicf_ld_global(in2, in2_at + 3);
    }
    // s
    float s_0 = score_0 + x0_0;
    float s_1 = score_1 + x0_1;
    float s_2 = score_2 + x0_2;
    float s_3 = score_3 + x0_3;
    // update
    m = aicf_fmax(m, base_kv < 11 ? s_0 : -aicf_inf());
    m = aicf_fmax(m, base_kv + 1 < 11 ? s_1 : -aicf_inf());
    m = aicf_fmax(m, base_kv + 2 < 11 ? s_2 : -aicf_inf());
    m = aicf_fmax(m, base_kv + 3 < 11 ? s_3 : -aicf_inf());
    // m_safe
    float m_safe = m == -aicf_inf() ? 0.0f : m;
    // p
    float p_0 = aicf_exp(s_0 - m_safe);
    float p_1 = aicf_exp(s_1 - m_safe);
    float p_2 = aicf_exp(s_2 - m_safe);
    float p_3 = aicf_exp(s_3 - m_safe);
    // repair
    l = (m_old < m ? aicf_exp(m_old - m) : 1.0f) * l;
    float t0 = m_old < m ? aicf_exp(m_old - m) : 1.0f;
    // repair
    o_0 = t0 * o_0;
    o_1 = t0 * o_1;
    o_2 = t0 * o_2;
    o_3 = t0 * o_3;
    // update
    l += base_kv < 11 ? p_0 : 0.0f;
    l += base_kv + 1 < 11 ? p_1 : 0.0f;
    l += base_kv + 2 < 11 ? p_2 : 0.0f;
    l += base_kv + 3 < 11 ? p_3 : 0.0f;
    float v_0, v_1, v_2, v_3, v_4, v_5, v_6, v_7, v_8, v_9, v_10, v_11, v_12, v_13, v_14, v_15;
    aicf_ld_global4(in3, in1_at, v_0, v_4, v_8, v_12);
    aicf_ld_global4(in3, in1_at + 4, v_1, v_5, v_9, v_13);
    aicf_ld_global4(in3, in1_at + 8, v_2, v_6, v_10, v_14);
    v_3 = v_7 = v_11 = v_15 = 0.0f;
    if (t) {
      aicf_ld_global4(in3, in1_at + 12, v_3, v_7, v_11, v_15);
    }
    // outside the axis: neutral
    float t1_0 = base_kv < 11 ? p_0 : 0.0f;
    float t1_1 = base_kv + 1 < 11 ? p_1 : 0.0f;
    float t1_2 = base_kv + 2 < 11 ? p_2 : 0.0f;
    float t1_3 = base_kv + 3 < 11 ? p_3 : 0.0f;
    // accumulate
    o_0 += t1_0 * v_0;
    o_1 += t1_0 * v_4;
    o_2 += t1_0 * v_8;
    o_3 += t1_0 * v_12;
    o_0 += t1_1 * v_1;
    o_1 += t1_1 * v_5;
    o_2 += t1_1 * v_9;
    o_3 += t1_1 * v_13;
    o_0 += t1_2 * v_2;
    o_1 += t1_2 * v_6;
    o_2 += t1_2 * v_10;
    o_3 += t1_2 * v_14;
    o_0 += t1_3 * v_3;
    o_1 += t1_3 * v_7;
    o_2 += t1_3 * v_11;
    o_3 += t1_3 * v_15;
  }
  // l_final
  float l_final = m == -aicf_inf() ? aicf_nan() : l;
  float out0_tile_0 = o_0 / l_final;
  float out0_tile_1 = o_1 / l_final;
  float out0_tile_2 = o_2 / l_final;
  float out0_tile_3 = o_3 / l_final;
  bool sole = lane >> 3 == 0;
  if (sole) {
    aicf_st_global4(out0, in0_at, out0_tile_0, out0_tile_1, out0_tile_2, out0_tile_3);
  }
}
