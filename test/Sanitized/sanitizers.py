"""What sanitizers are told, for the tests and the fuzzers alike."""

OPTIONS = {
    # Debian's MLIR isn't instrumented: containers that cross its border look overflown, its caches look leaked, and what
    # its allocators hand out stays poisoned where our copy of their code has poisoned the block. LLVM's threads have
    # alternate signal stacks of their own, which the sanitizer's would be taken for.
    "ASAN_OPTIONS": "detect_container_overflow=0:detect_leaks=0:allocator_may_return_null=1:allow_user_poisoning=0:"
                    "use_sigaltstack=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # libgomp and oneDNN aren't instrumented: what they order among their own threads can't be seen.
    # GoogleTest's death tests fork where threads run.
    "TSAN_OPTIONS": "second_deadlock_stack=1:ignore_noninstrumented_modules=1:die_after_fork=0",
}
