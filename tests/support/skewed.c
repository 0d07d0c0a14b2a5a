// In front of libc's: what time it is, SKEW seconds off. The monotonic clocks are as they were.

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (!failed && clock == CLOCK_REALTIME) {
        time->tv_sec += SKEW;
    }
    return failed;
}
