#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_spirv_intrinsics : require

// attention_0: 8 threads (1 x 8) a workgroup, 1 workgroups
//   reads in0: f32[8, 4]
//   reads in1: f32[11, 4]
//   reads in2: f32[11, 4]
//   writes out0: f32[8, 4]
//   shared k: f32[4]
//   shared v: f32[4]

// SignedZeroInfNanPreserve for 32-bit floats.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
layout(local_size_x = 8) in;
layout(std430, set = 0, binding = 0) restrict readonly buffer aicf_in0_x4 { u64vec2 in0_x4[]; };
layout(std430, set = 0, binding = 1) restrict readonly buffer aicf_in1_x4 { u64vec2 in1_x4[]; };
layout(std430, set = 0, binding = 2) restrict readonly buffer aicf_in2_x4 { u64vec2 in2_x4[]; };
layout(std430, set = 0, binding = 3) writeonly buffer aicf_out0_x4 { vec4 out0_x4[]; };
layout(push_constant) uniform aicf_parameters { int workgroup_count; };
shared vec4 k[1];
shared vec4 v[1];
#define aicf_inf uintBitsToFloat(0x7f800000u)
#define aicf_nan uintBitsToFloat(0x7fc00000u)
spirv_instruction(set = "GLSL.std.450", id = 80) float aicf_maxnum(float a, float b);

void main() {
  // A large grid is folded into three dimensions; what is left over of the last one returns, as a whole workgroup.
  const int workgroup = int(gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z));
  if (workgroup >= workgroup_count) return;
  const int lane = int(gl_LocalInvocationIndex);
  int base_q = 8 * workgroup;
  float q_0, q_1, q_2, q_3;
  int q_at = base_q + lane;
  int in0_at = 4 * q_at;
  {
    const u64vec2 aicf_v = in0_x4[in0_at >> 2];
    const uvec2 aicf_v_0 = unpackUint2x32(aicf_v.x);
    const uvec2 aicf_v_1 = unpackUint2x32(aicf_v.y);
    q_0 = uintBitsToFloat(aicf_v_0.x); q_1 = uintBitsToFloat(aicf_v_0.y);
    q_2 = uintBitsToFloat(aicf_v_1.x); q_3 = uintBitsToFloat(aicf_v_1.y);
  }
  float m = -aicf_inf;
  float l = 0.0;
  float o_0 = 0.0;
  float o_1 = 0.0;
  float o_2 = 0.0;
  float o_3 = 0.0;
  bool sole = lane == 0;
  for (int kv_tile = 0; kv_tile < 11; ++kv_tile) {
    int base_kv = kv_tile;
    float m_old = m;
    float s = 0.0;
    float k_stage_0, k_stage_1, k_stage_2, k_stage_3;
    int in1_at = 4 * base_kv;
    {
      const u64vec2 aicf_v = in1_x4[in1_at >> 2];
      const uvec2 aicf_v_0 = unpackUint2x32(aicf_v.x);
      const uvec2 aicf_v_1 = unpackUint2x32(aicf_v.y);
      k_stage_0 = uintBitsToFloat(aicf_v_0.x); k_stage_1 = uintBitsToFloat(aicf_v_0.y);
      k_stage_2 = uintBitsToFloat(aicf_v_1.x); k_stage_3 = uintBitsToFloat(aicf_v_1.y);
    }
    if (sole) {
      k[0] = vec4(k_stage_0, k_stage_1, k_stage_2, k_stage_3);
    }
    barrier();
    // s
    float k_v0, k_v1, k_v2, k_v3;
    {
      const vec4 aicf_v = k[0];
      k_v0 = aicf_v.x; k_v1 = aicf_v.y; k_v2 = aicf_v.z; k_v3 = aicf_v.w;
    }
    s += q_0 * k_v0;
    s += q_1 * k_v1;
    s += q_2 * k_v2;
    s += q_3 * k_v3;
    // update
    m = aicf_maxnum(m, s);
    // m_safe
    float m_safe = m == -aicf_inf ? 0.0 : m;
    // p
    float p = exp(s - m_safe);
    // repair
    l = (m_old < m ? exp(m_old - m) : 1.0) * l;
    float t0 = m_old < m ? exp(m_old - m) : 1.0;
    // repair
    o_0 = t0 * o_0;
    o_1 = t0 * o_1;
    o_2 = t0 * o_2;
    o_3 = t0 * o_3;
    // update
    l += p;
    float v_stage_0, v_stage_1, v_stage_2, v_stage_3;
    {
      const u64vec2 aicf_v = in2_x4[in1_at >> 2];
      const uvec2 aicf_v_0 = unpackUint2x32(aicf_v.x);
      const uvec2 aicf_v_1 = unpackUint2x32(aicf_v.y);
      v_stage_0 = uintBitsToFloat(aicf_v_0.x); v_stage_1 = uintBitsToFloat(aicf_v_0.y);
      v_stage_2 = uintBitsToFloat(aicf_v_1.x); v_stage_3 = uintBitsToFloat(aicf_v_1.y);
    }
    if (sole) {
      v[0] = vec4(v_stage_0, v_stage_1, v_stage_2, v_stage_3);
    }
    barrier();
    // accumulate
    float v_v0, v_v1, v_v2, v_v3;
    {
      const vec4 aicf_v = v[0];
      v_v0 = aicf_v.x; v_v1 = aicf_v.y; v_v2 = aicf_v.z; v_v3 = aicf_v.w;
    }
    o_0 += p * v_v0;
    o_1 += p * v_v1;
    o_2 += p * v_v2;
    o_3 += p * v_v3;
  }
  // l_final
  float l_final = m == -aicf_inf ? aicf_nan : l;
  float out0_tile_0 = o_0 / l_final;
  float out0_tile_1 = o_1 / l_final;
  float out0_tile_2 = o_2 / l_final;
  float out0_tile_3 = o_3 / l_final;
  out0_x4[in0_at >> 2] = vec4(out0_tile_0, out0_tile_1, out0_tile_2, out0_tile_3);
}
