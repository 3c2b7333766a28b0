"""Control flow, the stack, and what is neither."""

ROWS = """
@chapter Control Flow Instructions
@effect control
bra ~uni? ; l
brx.idx ~uni? ; * ; ptx=6.0
call ~uni? ; *
ret ~uni? ;
exit ;

@chapter Stack Manipulation Instructions
@effect memory local
stacksave T:u32|u64 ; d:T ; ptx=7.3 arch=52 !memory on the stack is not modelled
stackrestore T:u32|u64 ; s:T ; ptx=7.3 arch=52 !memory on the stack is not modelled
alloca T:u32|u64 ; d:T s:T i? ; ptx=7.3 arch=52 !memory on the stack is not modelled

@chapter Miscellaneous Instructions
@effect control
brkpt ;
trap ;
@effect hint
nanosleep u32 ; s:s32 ; ptx=6.3 arch=70
pmevent ; i
pmevent ~mask ; i ; ptx=3.0
@effect register pool
setmaxnreg.inc sync aligned u32 ; i ; ptx=8.0 arch=90a,100f,110f,120f mask=warpgroup
setmaxnreg.dec sync aligned u32 ; i ; ptx=8.0 arch=90a,100f,110f,120f mask=warpgroup
@effect grid
griddepcontrol.launch_dependents ; ; ptx=7.8 arch=90
griddepcontrol.wait ; ; ptx=7.8 arch=90
"""
