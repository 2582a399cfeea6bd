// LS_CLONES: a function that exists once per instruction set of x86-64, of which the processor's is called.
// Since nothing is contracted (-ffp-contract=off), each gives the same bits.
#pragma once

#if defined(__x86_64__) && !defined(LOCKSTEP_SANITIZED)
#define LS_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LS_CLONES
#endif
