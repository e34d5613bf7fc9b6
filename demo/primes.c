/* Counts the primes in [first, last): the work of one array task of the demo. */
#include <stdio.h>
#include <stdlib.h>

static int is_prime(long n)
{
    if (n < 4)
        return n > 1;
    if (n % 2 == 0)
        return 0;
    for (long d = 3; d * d <= n; d += 2)
        if (n % d == 0)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s FIRST LAST\n", argv[0]);
        return 2;
    }
    long first = atol(argv[1]), last = atol(argv[2]), count = 0;
    for (long n = first; n < last; n++)
        count += is_prime(n);
    printf("%ld\n", count);
    return 0;
}
