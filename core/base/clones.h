// LS_CLONES: a function that exists once per instruction set of x86-64, of which the processor's is called.
// Since nothing is contracted (-ffp-contract=off), each gives the same bits.
#pragma once

// What chooses among the clones runs before a sanitizer starts, and is built with it: the program would end
// there.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LS_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LS_SANITIZED
#endif

#if defined(__x86_64__) && !defined(LS_SANITIZED)
#define LS_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LS_CLONES
#endif
