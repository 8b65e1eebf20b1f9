/* What a tight loop in C does: threefry2x32-20, Laplace noise by the inverse CDF, threshold, vote.

   cc -O3 -march=native -ffast-math -mprefer-vector-width=512 -pthread tight.c -o tight -lm
   ./tight DIM MILLION_DRAWS THREADS      prints million draws per second, and the share of ones

   -ffast-math lets the compiler use a vector logarithm; without it the loop is many times slower. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCK = 4096, MOST_THREADS = 64 };

typedef struct {
  uint32_t key;
  long draws;
  int dim;
  long votes;
} Job;

static inline uint32_t rotate(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

/* One byte per draw: whether noise on D, all zeros, rounds to 1. Both words of a block are used. */
static void fill(uint32_t key0, uint32_t key1, uint32_t base, uint8_t *ones) {
  static const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t keys[3] = {key0, key1, key0 ^ key1 ^ 0x1BD11BDAu};
  for (uint32_t i = 0; i < BLOCK / 2; i++) {
    uint32_t x0 = keys[0], x1 = base + i + keys[1];
#pragma GCC unroll 32
    for (int round = 0; round < 20; round++) {
      x0 += x1;
      x1 = rotate(x1, rotations[round % 8]) ^ x0;
      if (round % 4 == 3) {
        x0 += keys[(round / 4 + 1) % 3];
        x1 += keys[(round / 4 + 2) % 3] + round / 4 + 1;
      }
    }
    const uint32_t words[2] = {x0, x1};
#pragma GCC unroll 2
    for (int word = 0; word < 2; word++) {
      union { uint32_t bits; float value; } one_to_two = {.bits = (words[word] >> 9) | 0x3f800000u};
      float centred = one_to_two.value - 1.5f;
      float size = logf(1.0f - 2.0f * fabsf(centred));
      ones[i + word * (BLOCK / 2)] = !((centred < 0 ? size : -size) <= 0.5f);
    }
  }
}

static void *work(void *given) {
  Job *job = given;
  uint8_t ones[BLOCK];
  for (long done = 0; done < job->draws; done += BLOCK) {
    fill(job->key, (uint32_t)(done >> 31), (uint32_t)(done / 2), ones);
    for (int row = 0; row < BLOCK; row += job->dim) {
      int votes = 0;
      for (int i = 0; i < job->dim; i++) votes += ones[row + i];
      job->votes += 2 * votes > job->dim;
    }
  }
  return NULL;
}

int main(int count, char **words) {
  if (count != 4) return 2;
  int dim = atoi(words[1]), threads = atoi(words[3]);
  long draws = atol(words[2]) * 1000000L, votes = 0;
  if (threads < 1 || threads > MOST_THREADS || dim < 1 || BLOCK % dim) return 2;
  pthread_t running[MOST_THREADS];
  Job jobs[MOST_THREADS];
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < threads; i++) {
    jobs[i] = (Job){.key = (uint32_t)i, .draws = draws / threads, .dim = dim};
    pthread_create(&running[i], NULL, work, &jobs[i]);
  }
  for (int i = 0; i < threads; i++) {
    pthread_join(running[i], NULL);
    votes += jobs[i].votes;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  printf("%.1f %.6f\n", (double)draws / seconds / 1e6, (double)votes * dim / (double)draws);
  return 0;
}
