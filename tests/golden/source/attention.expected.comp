#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_spirv_intrinsics : require

// attention_0: 8 threads (1 x 8) a workgroup, 1 workgroups
//   reads in0: f32[8, 4]
//   reads in1: f32[11, 4]
//   reads in2: f32[8, 11]
//   reads in3: f32[11, 4]
//   writes out0: f32[8, 4]

// SignedZeroInfNanPreserve for 32-bit floats.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
layout(local_size_x = 8) in;
layout(std430, set = 0, binding = 0) restrict readonly buffer aicf_in0_x4 { u64vec2 in0_x4[]; };
layout(std430, set = 0, binding = 1) restrict readonly buffer aicf_in1_x4 { u64vec2 in1_x4[]; };
layout(std430, set = 0, binding = 2) restrict readonly buffer aicf_in2 { float in2[]; };
layout(std430, set = 0, binding = 3) restrict readonly buffer aicf_in3_x4 { u64vec2 in3_x4[]; };
layout(std430, set = 0, binding = 4) writeonly buffer aicf_out0_x4 { vec4 out0_x4[]; };
layout(push_constant) uniform aicf_parameters { int workgroup_count; };
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
  for (int kv_tile = 0; kv_tile < 11; ++kv_tile) {
    int base_kv = kv_tile;
    float m_old = m;
    float score = 0.0;
    float k_0, k_1, k_2, k_3;
    int in1_at = 4 * base_kv;
    {
      const u64vec2 aicf_v = in1_x4[in1_at >> 2];
      const uvec2 aicf_v_0 = unpackUint2x32(aicf_v.x);
      const uvec2 aicf_v_1 = unpackUint2x32(aicf_v.y);
      k_0 = uintBitsToFloat(aicf_v_0.x); k_1 = uintBitsToFloat(aicf_v_0.y);
      k_2 = uintBitsToFloat(aicf_v_1.x); k_3 = uintBitsToFloat(aicf_v_1.y);
    }
    // score
    score += q_0 * k_0;
    score += q_1 * k_1;
    score += q_2 * k_2;
    score += q_3 * k_3;
    float x0;
    int in2_at = 11 * q_at + base_kv;
    x0 = in2[in2_at];
    // s
    float s = score + x0;
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
    float v_0, v_1, v_2, v_3;
    {
      const u64vec2 aicf_v = in3_x4[in1_at >> 2];
      const uvec2 aicf_v_0 = unpackUint2x32(aicf_v.x);
      const uvec2 aicf_v_1 = unpackUint2x32(aicf_v.y);
      v_0 = uintBitsToFloat(aicf_v_0.x); v_1 = uintBitsToFloat(aicf_v_0.y);
      v_2 = uintBitsToFloat(aicf_v_1.x); v_3 = uintBitsToFloat(aicf_v_1.y);
    }
    // accumulate
    o_0 += p * v_0;
    o_1 += p * v_1;
    o_2 += p * v_2;
    o_3 += p * v_3;
  }
  // l_final
  float l_final = m == -aicf_inf ? aicf_nan : l;
  float out0_tile_0 = o_0 / l_final;
  float out0_tile_1 = o_1 / l_final;
  float out0_tile_2 = o_2 / l_final;
  float out0_tile_3 = o_3 / l_final;
  out0_x4[in0_at >> 2] = vec4(out0_tile_0, out0_tile_1, out0_tile_2, out0_tile_3);
}
