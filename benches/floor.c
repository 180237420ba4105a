/* The least that a client of Triton's C API can do per inference: the yardstick that scripts/compare-upstream holds
 * triton-bench and perf_analyzer against. It measures no request and keeps no record; it only counts completions.
 *
 *   cc -O2 -o target/floor benches/floor.c -ldl -lpthread
 *   target/floor --server DIR --repository DIR --model NAME --mode sync|spin|chain
 *                [--outstanding N] [--seconds S] [--elements E] [--steps D] [--stamp]
 *
 * The model takes INPUT0 of type FP32 and shape [batch, E]. There are D different inputs (1), each with a request object that
 * is used again and again; they are dealt to the slots, and every slot goes round through its own. Modes:
 *   sync   N threads, each sends one request and sleeps on a condition variable until it is done
 *   spin   the same threads, but they poll a flag
 *   chain  N requests are sent once; the callback that completes one sends it again, no thread of ours takes part
 * With --stamp every response's callback reads the clock once and stores what it reads: the least that a program does that
 * measures latencies.
 * After one second of running in, completions are counted for S seconds. Standard output gets one line:
 *   MODE N: RATE infer/sec, CPU usec/infer
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { TYPE_FP32 = 11, MEMORY_CPU = 0, MODEL_CONTROL_EXPLICIT = 2, LATEST_VERSION = -1 };
enum { MAX_OUTSTANDING = 1024, CACHE_LINE = 64 };
/* A request is over when the server has released it and has sent its one response, in either order. */
enum { EVENTS_PER_REQUEST = 2 };

typedef void Error; /* every function answers NULL, or an error that explains itself */
typedef void ReleaseCallback(void *request, uint32_t flags, void *slot);
typedef void ResponseCallback(void *response, uint32_t flags, void *slot);
typedef Error *AllocateCallback(void *allocator, const char *tensor, size_t size, int preferred, int64_t preferred_id,
                                void *slot, void **buffer, void **buffer_data, int *actual, int64_t *actual_id);
typedef Error *FreeCallback(void *allocator, void *buffer, void *buffer_data, size_t size, int memory, int64_t id);

/* The part of the C API in use: name, then parameters. Each becomes a member of `api`, filled in by open_library. */
#define FUNCTIONS(F)                                                                                                   \
  F(ServerOptionsNew, (void **options))                                                                                \
  F(ServerOptionsDelete, (void *options))                                                                              \
  F(ServerOptionsSetModelRepositoryPath, (void *options, const char *path))                                            \
  F(ServerOptionsSetBackendDirectory, (void *options, const char *path))                                               \
  F(ServerOptionsSetModelControlMode, (void *options, int mode))                                                       \
  F(ServerOptionsSetStartupModel, (void *options, const char *model))                                                  \
  F(ServerOptionsSetLogInfo, (void *options, bool on))                                                                 \
  F(ServerOptionsSetLogWarn, (void *options, bool on))                                                                 \
  F(ServerOptionsSetMetrics, (void *options, bool on))                                                                 \
  F(ServerNew, (void **server, void *options))                                                                         \
  F(ServerInferAsync, (void *server, void *request, void *trace))                                                      \
  F(InferenceRequestNew, (void **request, void *server, const char *model, int64_t version))                           \
  F(InferenceRequestAddInput, (void *request, const char *name, int type, const int64_t *shape, uint64_t dimensions)) \
  F(InferenceRequestAppendInputData,                                                                                   \
    (void *request, const char *name, const void *data, size_t size, int memory, int64_t id))                          \
  F(InferenceRequestSetReleaseCallback, (void *request, ReleaseCallback *call, void *slot))                            \
  F(InferenceRequestSetResponseCallback,                                                                               \
    (void *request, void *allocator, void *allocator_data, ResponseCallback *call, void *slot))                        \
  F(InferenceResponseError, (void *response))                                                                          \
  F(InferenceResponseDelete, (void *response))                                                                         \
  F(ResponseAllocatorNew, (void **allocator, AllocateCallback *allocate, FreeCallback *release, void *start))

static struct {
#define MEMBER(name, parameters) Error *(*name) parameters;
  FUNCTIONS(MEMBER)
#undef MEMBER
  const char *(*ErrorMessage)(Error *error);
} api;

enum mode { SYNC, SPIN, CHAIN };
static const char *const mode_names[] = {"sync", "spin", "chain"};

static struct {
  const char *server, *repository, *model;
  enum mode mode;
  long outstanding, elements, steps;
  double seconds;
  bool stamp;
} options = {.mode = SYNC, .outstanding = 1, .elements = 16, .steps = 1, .seconds = 2.0};

/* One request outstanding, with all that belongs to it. Slots do not share cache lines. */
struct slot {
  _Alignas(CACHE_LINE) void **requests;
  long count, next;
  float *output;
  size_t output_size;
  atomic_int events;
  atomic_bool done;
  _Atomic uint64_t completed, answered_ns;
  pthread_mutex_t mutex;
  pthread_cond_t finished;
};

static void *server;
static atomic_bool stopping;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "floor: error: %s: %s\n", what, why);
  _exit(1); /* the server's threads may be inside callbacks: leave without tearing anything down */
}

static void check(const char *what, Error *error) {
  if (error) fail(what, api.ErrorMessage(error));
}
#define CALL(function, ...) check(#function, api.function(__VA_ARGS__))

static Error *allocate_output(void *allocator, const char *tensor, size_t size, int preferred, int64_t preferred_id,
                              void *data, void **buffer, void **buffer_data, int *actual, int64_t *actual_id) {
  struct slot *slot = data;
  (void)allocator, (void)preferred, (void)preferred_id;
  if (size > slot->output_size) fail(tensor, "is larger than the input; floor is meant for identity models");
  *buffer = slot->output;
  *buffer_data = NULL;
  *actual = MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static Error *keep_output(void *allocator, void *buffer, void *data, size_t size, int memory, int64_t id) {
  (void)allocator, (void)buffer, (void)data, (void)size, (void)memory, (void)id;
  return NULL;
}

static void send_request(struct slot *slot) {
  void *request = slot->requests[slot->next];
  slot->next = slot->next + 1 < slot->count ? slot->next + 1 : 0; /* before another thread may be here */
  CALL(ServerInferAsync, server, request, NULL);
}

/* Either of a request's two events; the second one completes it. */
static void on_event(struct slot *slot) {
  if (atomic_fetch_add(&slot->events, 1) + 1 < EVENTS_PER_REQUEST) return;
  atomic_store_explicit(&slot->events, 0, memory_order_relaxed);
  atomic_store_explicit(&slot->completed, atomic_load_explicit(&slot->completed, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  switch (options.mode) {
  case CHAIN:
    if (!atomic_load_explicit(&stopping, memory_order_relaxed)) send_request(slot);
    break;
  case SPIN:
    atomic_store_explicit(&slot->done, true, memory_order_release);
    break;
  case SYNC:
    pthread_mutex_lock(&slot->mutex);
    atomic_store_explicit(&slot->done, true, memory_order_relaxed);
    pthread_cond_signal(&slot->finished);
    pthread_mutex_unlock(&slot->mutex);
  }
}

static void on_release(void *request, uint32_t flags, void *slot) {
  (void)request, (void)flags;
  on_event(slot);
}

static void on_response(void *response, uint32_t flags, void *slot) {
  (void)flags;
  if (options.stamp) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store_explicit(&((struct slot *)slot)->answered_ns,
                          (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, memory_order_relaxed);
  }
  check("inference", api.InferenceResponseError(response));
  CALL(InferenceResponseDelete, response);
  on_event(slot);
}

static void wait_done(struct slot *slot) {
  if (options.mode == SPIN) {
    while (!atomic_load_explicit(&slot->done, memory_order_acquire)) __builtin_ia32_pause();
    return;
  }
  pthread_mutex_lock(&slot->mutex);
  while (!atomic_load_explicit(&slot->done, memory_order_relaxed)) pthread_cond_wait(&slot->finished, &slot->mutex);
  pthread_mutex_unlock(&slot->mutex);
}

static void *run_closed_loop(void *data) {
  struct slot *slot = data;
  while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
    atomic_store_explicit(&slot->done, false, memory_order_relaxed);
    send_request(slot);
    wait_done(slot);
  }
  return NULL;
}

static void open_library(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/lib/libtritonserver.so", options.server);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail("--server", dlerror());
#define LOOK_UP(name, parameters)                                                                                      \
  if (!(*(void **)&api.name = dlsym(library, "TRITONSERVER_" #name))) fail(path, "lacks TRITONSERVER_" #name);
  FUNCTIONS(LOOK_UP)
  LOOK_UP(ErrorMessage, ())
#undef LOOK_UP
}

static void start_server(void) {
  char backends[4096];
  void *settings;
  snprintf(backends, sizeof backends, "%s/backends", options.server);
  CALL(ServerOptionsNew, &settings);
  CALL(ServerOptionsSetModelRepositoryPath, settings, options.repository);
  CALL(ServerOptionsSetBackendDirectory, settings, backends);
  CALL(ServerOptionsSetModelControlMode, settings, MODEL_CONTROL_EXPLICIT);
  CALL(ServerOptionsSetStartupModel, settings, options.model);
  CALL(ServerOptionsSetLogInfo, settings, false);
  CALL(ServerOptionsSetLogWarn, settings, false);
  CALL(ServerOptionsSetMetrics, settings, false);
  CALL(ServerNew, &server, settings);
  CALL(ServerOptionsDelete, settings);
}

/* Memory with pages of its own. Zeros would not do: a compiler may drop them after calloc, and all pages that were only
   read are one page, which stays in the processor's cache. */
static void *paged_in(size_t size) {
  void *memory = malloc(size);
  if (!memory) fail("--elements", "not enough memory for the tensors");
  return memset(memory, 0x3f, size);
}

static void *prepare_request(struct slot *slot, void *allocator, const float *input) {
  const int64_t shape[] = {1, options.elements};
  void *request;
  CALL(InferenceRequestNew, &request, server, options.model, LATEST_VERSION);
  CALL(InferenceRequestAddInput, request, "INPUT0", TYPE_FP32, shape, 2);
  CALL(InferenceRequestAppendInputData, request, "INPUT0", input, slot->output_size, MEMORY_CPU, 0);
  CALL(InferenceRequestSetReleaseCallback, request, on_release, slot);
  CALL(InferenceRequestSetResponseCallback, request, allocator, slot, on_response, slot);
  return request;
}

/* The slot with the given number takes every `outstanding`-th input; where there are fewer, slots share. */
static void prepare_slot(struct slot *slot, long number, void *allocator, const float *inputs) {
  const long first = number % options.steps;
  slot->output_size = sizeof(float) * (size_t)options.elements;
  slot->output = paged_in(slot->output_size);
  pthread_mutex_init(&slot->mutex, NULL);
  pthread_cond_init(&slot->finished, NULL);
  slot->count = (options.steps - first + options.outstanding - 1) / options.outstanding;
  slot->requests = calloc((size_t)slot->count, sizeof *slot->requests);
  if (!slot->requests) fail("--steps", "not enough memory for the requests");
  for (long i = 0; i < slot->count; i++)
    slot->requests[i] = prepare_request(slot, allocator, inputs + (first + i * options.outstanding) * options.elements);
}

static struct slot *start_load(void) {
  void *allocator;
  pthread_t thread;
  struct slot *slots = aligned_alloc(CACHE_LINE, sizeof *slots * (size_t)options.outstanding);
  if (!slots) fail("--outstanding", "not enough memory for the slots");
  memset(slots, 0, sizeof *slots * (size_t)options.outstanding);
  CALL(ResponseAllocatorNew, &allocator, allocate_output, keep_output, NULL);
  const float *inputs = paged_in(sizeof(float) * (size_t)options.elements * (size_t)options.steps);
  for (long i = 0; i < options.outstanding; i++) prepare_slot(&slots[i], i, allocator, inputs);
  for (long i = 0; i < options.outstanding; i++) {
    if (options.mode == CHAIN)
      send_request(&slots[i]);
    else if (pthread_create(&thread, NULL, run_closed_loop, &slots[i]))
      fail("--outstanding", "the system refuses another thread");
  }
  return slots;
}

struct reading {
  double seconds, cpu_seconds;
  uint64_t completed;
};

static struct reading read_counters(const struct slot *slots) {
  struct reading now = {0};
  struct timespec clock;
  struct rusage usage;
  for (long i = 0; i < options.outstanding; i++) now.completed += atomic_load(&slots[i].completed);
  clock_gettime(CLOCK_MONOTONIC, &clock);
  getrusage(RUSAGE_SELF, &usage);
  now.seconds = (double)clock.tv_sec + (double)clock.tv_nsec / 1e9;
  now.cpu_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  return now;
}

static void sleep_for(double seconds) {
  struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) && errno == EINTR) {
  }
}

static enum mode parse_mode(const char *text) {
  for (int mode = SYNC; mode <= CHAIN; mode++)
    if (!strcmp(text, mode_names[mode])) return (enum mode)mode;
  fail("--mode", "must be sync, spin or chain");
  return SYNC;
}

static double parse_number(const char *flag, const char *text, double low, double high) {
  char *end, rule[96];
  double value = strtod(text, &end);
  snprintf(rule, sizeof rule, "must be a number from %g to %g", low, high);
  if (end == text || *end || !(value >= low && value <= high)) fail(flag, rule);
  return value;
}

static void parse_options(int count, char **words) {
  static const struct option known[] = {
      {"server", required_argument, NULL, 'd'},      {"repository", required_argument, NULL, 'r'},
      {"model", required_argument, NULL, 'm'},       {"mode", required_argument, NULL, 'k'},
      {"outstanding", required_argument, NULL, 'n'}, {"seconds", required_argument, NULL, 's'},
      {"elements", required_argument, NULL, 'e'},    {"steps", required_argument, NULL, 'i'},
      {"stamp", no_argument, NULL, 't'},
      {0}};
  for (int found; (found = getopt_long(count, words, "", known, NULL)) != -1;) {
    switch (found) {
    case 'd': options.server = optarg; break;
    case 'r': options.repository = optarg; break;
    case 'm': options.model = optarg; break;
    case 'k': options.mode = parse_mode(optarg); break;
    case 'n': options.outstanding = (long)parse_number("--outstanding", optarg, 1, MAX_OUTSTANDING); break;
    case 's': options.seconds = parse_number("--seconds", optarg, 0.1, 3600); break;
    case 'e': options.elements = (long)parse_number("--elements", optarg, 1, 1 << 28); break;
    case 'i': options.steps = (long)parse_number("--steps", optarg, 1, 1 << 20); break;
    case 't': options.stamp = true; break;
    default: _exit(2); /* getopt has said why */
    }
  }
  if (!options.server || !options.repository || !options.model)
    fail("usage", "--server, --repository and --model are required");
}

int main(int count, char **words) {
  parse_options(count, words);
  open_library();
  start_server();
  const struct slot *slots = start_load();
  sleep_for(1.0);
  const struct reading first = read_counters(slots);
  sleep_for(options.seconds);
  const struct reading last = read_counters(slots);
  atomic_store(&stopping, true);
  const double completed = (double)(last.completed - first.completed);
  printf("%s %ld: %.0f infer/sec, %.2f usec/infer\n", mode_names[options.mode], options.outstanding,
         completed / (last.seconds - first.seconds), (last.cpu_seconds - first.cpu_seconds) * 1e6 / completed);
  fflush(stdout);
  _exit(0); /* nothing is worth an orderly server shutdown, which takes a second */
}
