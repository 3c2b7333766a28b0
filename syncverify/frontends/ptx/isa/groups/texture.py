"""Textures and surfaces."""

ROWS = """
@chapter Texture Instructions
@effect texture read
tex GEOM:GEOM VEC:v4 ~TEXEL:u32|s32|f16|f32 ~TEXEL:s32|f32 ; *
tex GEOM:GEOM VEC:v2 ~TEXEL:f16x2 ~TEXEL:s32|f32 ; * ; ptx=4.2
tex ~LOD:base|level|grad GEOM:GEOM VEC:v4 ~TEXEL:u32|s32|f16|f32 ~TEXEL:s32|f32 ; *
tex ~LOD:base|level|grad GEOM:GEOM VEC:v2 ~TEXEL:f16x2 ~TEXEL:s32|f32 ; * ; ptx=4.2
tld4 ~COMP:r|g|b|a GEOM:2d|a2d|cube|acube VEC:v4 ~TEXEL:u32|s32|f32 ~TEXEL:f32 ; *
@effect data
txq ~QUERY:width|height|depth|channel_data_type|channel_order|normalized_coords|array_size|num_mipmap_levels|num_samples|force_unnormalized_coords|filter_mode|addr_mode_0|addr_mode_1|addr_mode_2 b32 ; *
txq ~LOD:level ~QUERY:width|height|depth b32 ; *
istypep ~QUERY:texref|samplerref|surfref ; * ; ptx=4.0
@effect texture read
suld.b ~GEOM:SURFACE ~COP_NC:ca|cg|cs|cv? VEC:v2|v4? ~TEXEL:b8|b16|b32|b64 ~CLAMP ; *
@effect data
suq ~QUERY:width|height|depth|channel_data_type|channel_order|array_size|memory_layout b32 ; *
@effect memory write
sust.b ~GEOM:SURFACE ~COP_ST? VEC:v2|v4? ~TEXEL:b8|b16|b32|b64 ~CLAMP ; * ; !stores to surfaces are not modelled
sust.p ~GEOM:SURFACE VEC:v2|v4? ~TEXEL:b32 ~CLAMP ; * ; !stores to surfaces are not modelled
@effect memory atomic
sured.b ~OP:add|min|max|and|or ~GEOM:1d|2d|3d ~TEXEL:u32|u64|s32|b32|s64 ~CLAMP ; * ; !reductions of surfaces are not modelled
sured.p ~OP:add|min|max|and|or ~GEOM:1d|2d|3d ~TEXEL:b32|b64 ~CLAMP ; * ; !reductions of surfaces are not modelled
"""
