"""Arithmetic on floats: their results are data."""

ROWS = """
@chapter Floating-Point Instructions
@effect data
testp ~test:finite|infinite|number|notanumber|normal|subnormal T:f32|f64 ; p s:T
copysign T:f32|f64 ; d:T s:T s:T
add ~RND? ~ftz? ~sat? T:f32 ; d:T s:T s:T
add ~RND? T:f64 ; d:T s:T s:T
add ~RND? ~ftz? T:f32x2 ; d:T s:T s:T ; ptx=8.6 arch=100
sub ~RND? ~ftz? ~sat? T:f32 ; d:T s:T s:T
sub ~RND? T:f64 ; d:T s:T s:T
sub ~RND? ~ftz? T:f32x2 ; d:T s:T s:T ; ptx=8.6 arch=100
mul ~RND? ~ftz? ~sat? T:f32 ; d:T s:T s:T
mul ~RND? T:f64 ; d:T s:T s:T
mul ~RND? ~ftz? T:f32x2 ; d:T s:T s:T ; ptx=8.6 arch=100
fma ~RND ~ftz? ~sat? T:f32 ; d:T s:T s:T s:T
fma ~RND T:f64 ; d:T s:T s:T s:T
fma ~RND ~ftz? T:f32x2 ; d:T s:T s:T s:T ; ptx=8.6 arch=100
mad ~RND ~ftz? ~sat? T:f32 ; d:T s:T s:T s:T
mad ~RND T:f64 ; d:T s:T s:T s:T
div.approx ~ftz? T:f32 ; d:T s:T s:T
div.full ~ftz? T:f32 ; d:T s:T s:T
div ~RND ~ftz? T:f32 ; d:T s:T s:T
div ~RND T:f64 ; d:T s:T s:T
abs ~ftz? T:f32 ; d:T s:T
abs T:f64 ; d:T s:T
neg ~ftz? T:f32 ; d:T s:T
neg T:f64 ; d:T s:T
min ~ftz? ~NaN? T:f32 ; d:T s:T s:T
min ~ftz? ~NaN? ~xorsign ~abs T:f32 ; d:T s:T s:T ; ptx=7.2 arch=86
min ~ftz? ~NaN? ~abs? T:f32 ; d:T s:T s:T s:T ; ptx=8.8 arch=100
min T:f64 ; d:T s:T s:T
max ~ftz? ~NaN? T:f32 ; d:T s:T s:T
max ~ftz? ~NaN? ~xorsign ~abs T:f32 ; d:T s:T s:T ; ptx=7.2 arch=86
max ~ftz? ~NaN? ~abs? T:f32 ; d:T s:T s:T s:T ; ptx=8.8 arch=100
max T:f64 ; d:T s:T s:T
rcp ~approx ~ftz? T:f32 ; d:T s:T
rcp ~RND ~ftz? T:f32 ; d:T s:T
rcp ~RND T:f64 ; d:T s:T
rcp ~approx ~ftz T:f64 ; d:T s:T
sqrt ~approx ~ftz? T:f32 ; d:T s:T
sqrt ~RND ~ftz? T:f32 ; d:T s:T
sqrt ~RND T:f64 ; d:T s:T
rsqrt ~approx ~ftz? T:f32 ; d:T s:T
rsqrt ~approx ~ftz? T:f64 ; d:T s:T
sin ~approx ~ftz? T:f32 ; d:T s:T
cos ~approx ~ftz? T:f32 ; d:T s:T
lg2 ~approx ~ftz? T:f32 ; d:T s:T
ex2 ~approx ~ftz? T:f32 ; d:T s:T
tanh ~approx T:f32 ; d:T s:T ; ptx=7.0 arch=75

@chapter Half Precision Floating-Point Instructions
add ~ROUND:rn? ~ftz? ~sat? T:f16|f16x2 ; d:T s:T s:T ; ptx=4.2
add ~ROUND:rn? T:bf16|bf16x2 ; d:T s:T s:T ; ptx=7.8 arch=90
sub ~ROUND:rn? ~ftz? ~sat? T:f16|f16x2 ; d:T s:T s:T ; ptx=4.2
sub ~ROUND:rn? T:bf16|bf16x2 ; d:T s:T s:T ; ptx=7.8 arch=90
mul ~ROUND:rn? ~ftz? ~sat? T:f16|f16x2 ; d:T s:T s:T ; ptx=4.2
mul ~ROUND:rn? T:bf16|bf16x2 ; d:T s:T s:T ; ptx=7.8 arch=90
fma ~ROUND:rn ~ftz? ~sat? T:f16|f16x2 ; d:T s:T s:T s:T ; ptx=4.2
fma ~ROUND:rn ~ftz? ~relu T:f16|f16x2 ; d:T s:T s:T s:T ; ptx=7.0 arch=80
fma ~ROUND:rn ~relu? T:bf16|bf16x2 ; d:T s:T s:T s:T ; ptx=7.0 arch=80
fma ~ROUND:rn ~oob ~relu? T:f16|f16x2|bf16|bf16x2 ; d:T s:T s:T s:T ; ptx=8.1 arch=90
neg ~ftz? T:f16|f16x2 ; d:T s:T ; ptx=6.0
neg T:bf16|bf16x2 ; d:T s:T ; ptx=7.0 arch=80
abs ~ftz? T:f16|f16x2 ; d:T s:T ; ptx=6.5
abs T:bf16|bf16x2 ; d:T s:T ; ptx=7.0 arch=80
min ~ftz? ~NaN? T:f16|f16x2 ; d:T s:T s:T ; ptx=7.0 arch=80
min ~ftz? ~NaN? ~xorsign ~abs T:f16|f16x2 ; d:T s:T s:T ; ptx=7.2 arch=86
min ~NaN? T:bf16|bf16x2 ; d:T s:T s:T ; ptx=7.0 arch=80
min ~NaN? ~xorsign ~abs T:bf16|bf16x2 ; d:T s:T s:T ; ptx=7.2 arch=86
max ~ftz? ~NaN? T:f16|f16x2 ; d:T s:T s:T ; ptx=7.0 arch=80
max ~ftz? ~NaN? ~xorsign ~abs T:f16|f16x2 ; d:T s:T s:T ; ptx=7.2 arch=86
max ~NaN? T:bf16|bf16x2 ; d:T s:T s:T ; ptx=7.0 arch=80
max ~NaN? ~xorsign ~abs T:bf16|bf16x2 ; d:T s:T s:T ; ptx=7.2 arch=86
tanh ~approx T:f16|f16x2 ; d:T s:T ; ptx=7.0 arch=75
tanh ~approx T:bf16|bf16x2 ; d:T s:T ; ptx=7.8 arch=90
ex2 ~approx T:f16|f16x2 ; d:T s:T ; ptx=7.0 arch=75
ex2 ~approx ~ftz T:bf16|bf16x2 ; d:T s:T ; ptx=7.8 arch=90

@chapter Mixed Precision Floating-Point Instructions
add ~RND? ~sat? T:f32 A:HALF ; d:T s:A s:T ; ptx=8.6 arch=100
sub ~RND? ~sat? T:f32 A:HALF ; d:T s:A s:T ; ptx=8.6 arch=100
fma ~RND ~sat? T:f32 A:HALF ; d:T s:A s:A s:T ; ptx=8.6 arch=100
"""
