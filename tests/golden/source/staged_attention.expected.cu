// attention_0: 32 threads (1 x 32) a workgroup, 1 workgroups
//   reads in0: f32[8, 4]
//   reads in1: f32[11, 4]
//   reads in2: f32[11, 4]
//   writes out0: f32[8, 4]
//   shared k: f32[16]
//   shared v: f32[16]

extern "C" __global__ void AICF_LAUNCH_BOUNDS(32, 1)
attention_0(const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0, int workgroup_count) {
  const int workgroup = aicf_workgroup();
  if (workgroup >= workgroup_count) return;
  const int lane = aicf_lane();
  AICF_SHARED(float, k, 0);
  AICF_SHARED(float, v, 64);
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
  int k_at = (lane & 3) * 4;
  bool sole = lane >> 2 == 0;
  for (int kv_tile = 0; kv_tile < 11; kv_tile += 4) {
    int base_kv = kv_tile;
    float m_old = m;
    float s_0 = 0.0f;
    float s_1 = 0.0f;
    float s_2 = 0.0f;
    float s_3 = 0.0f;
    float k_stage_0, k_stage_1, k_stage_2, k_stage_3;
    int kv_at = base_kv + (lane & 3);
    bool t = kv_at <= 10;
    int in1_at = 4 * kv_at;
    k_stage_0 = k_stage_1 = k_stage_2 = k_stage_3 = 0.0f;
    if (t) {
      aicf_ld_global4(in1, in1_at, k_stage_0, k_stage_1, k_stage_2, k_stage_3);
    }
    if (sole) {
      aicf_st_shared4(k, k_at, k_stage_0, k_stage_1, k_stage_2, k_stage_3);
    }
    aicf_barrier();
    // s
    float k_v0, k_v1, k_v2, k_v3;
    aicf_ld_shared4(k, 0, k_v0, k_v1, k_v2, k_v3);
    s_0 += q_0 * k_v0;
    float k_v4, k_v5, k_v6, k_v7;
    aicf_ld_shared4(k, 4, k_v4, k_v5, k_v6, k_v7);
    s_1 += q_0 * k_v4;
    float k_v8, k_v9, k_v10, k_v11;
    aicf_ld_shared4(k, 8, k_v8, k_v9, k_v10, k_v11);
    s_2 += q_0 * k_v8;
    float k_v12, k_v13, k_v14, k_v15;
    aicf_ld_shared4(k, 12, k_v12, k_v13, k_v14, k_v15);
    s_3 += q_0 * k_v12;
    s_0 += q_1 * k_v1;
    s_1 += q_1 * k_v5;
    s_2 += q_1 * k_v9;
    s_3 += q_1 * k_v13;
    s_0 += q_2 * k_v2;
    s_1 += q_2 * k_v6;
    s_2 += q_2 * k_v10;
    s_3 += q_2 * k_v14;
    s_0 += q_3 * k_v3;
    s_1 += q_3 * k_v7;
    s_2 += q_3 * k_v11;
    s_3 += q_3 * k_v15;
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
    float v_stage_0, v_stage_1, v_stage_2, v_stage_3;
    v_stage_0 = v_stage_1 = v_stage_2 = v_stage_3 = 0.0f;
    if (t) {
      aicf_ld_global4(in2, in1_at, v_stage_0, v_stage_1, v_stage_2, v_stage_3);
    }
    if (sole) {
      aicf_st_shared4(v, k_at, v_stage_0, v_stage_1, v_stage_2, v_stage_3);
    }
    aicf_barrier();
    // outside the axis: neutral
    float t1_0 = base_kv < 11 ? p_0 : 0.0f;
    float t1_1 = base_kv + 1 < 11 ? p_1 : 0.0f;
    float t1_2 = base_kv + 2 < 11 ? p_2 : 0.0f;
    float t1_3 = base_kv + 3 < 11 ? p_3 : 0.0f;
    // accumulate
    float v_v0, v_v1, v_v2, v_v3;
    aicf_ld_shared4(v, 0, v_v0, v_v1, v_v2, v_v3);
    o_0 += t1_0 * v_v0;
    o_1 += t1_0 * v_v1;
    o_2 += t1_0 * v_v2;
    o_3 += t1_0 * v_v3;
    float v_v4, v_v5, v_v6, v_v7;
    aicf_ld_shared4(v, 4, v_v4, v_v5, v_v6, v_v7);
    o_0 += t1_1 * v_v4;
    o_1 += t1_1 * v_v5;
    o_2 += t1_1 * v_v6;
    o_3 += t1_1 * v_v7;
    float v_v8, v_v9, v_v10, v_v11;
    aicf_ld_shared4(v, 8, v_v8, v_v9, v_v10, v_v11);
    o_0 += t1_2 * v_v8;
    o_1 += t1_2 * v_v9;
    o_2 += t1_2 * v_v10;
    o_3 += t1_2 * v_v11;
    float v_v12, v_v13, v_v14, v_v15;
    aicf_ld_shared4(v, 12, v_v12, v_v13, v_v14, v_v15);
    o_0 += t1_3 * v_v12;
    o_1 += t1_3 * v_v13;
    o_2 += t1_3 * v_v14;
    o_3 += t1_3 * v_v15;
  }
  // l_final
  float l_final = m == -aicf_inf() ? aicf_nan() : l;
  float out0_tile_0 = o_0 / l_final;
  float out0_tile_1 = o_1 / l_final;
  float out0_tile_2 = o_2 / l_final;
  float out0_tile_3 = o_3 / l_final;
  bool sole_n1 = lane >> 3 == 0;
  if (sole_n1) {
    aicf_st_global4(out0, in0_at, out0_tile_0, out0_tile_1, out0_tile_2, out0_tile_3);
  }
}
