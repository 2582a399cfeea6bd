// LS_CLONES compiles a function once per x86-64 instruction set; at run time the best one for the processor
// is called. All give the same bits, since no multiply-add is contracted (-ffp-contract=off).
#pragma once

// Sanitizer builds have no clones: the resolver that chooses one is instrumented, too, and would run before
// the sanitizer has started, which ends the program.
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
