# triton-bench inside the official Triton image, so that it measures the very server that will run in production:
#   docker build -t triton-bench .
#   docker run --rm --gpus all -v "$PWD/models:/models" triton-bench -m MODEL --model-repository /models
# Both images are named by digest, because a tag may come to mean another image. Another Triton release, by tag or by digest:
#   --build-arg TRITON_IMAGE=nvcr.io/nvidia/tritonserver:YY.MM-py3        (docs/install.md says how to look a digest up)
# scripts/check-dockerfile does what stands here where there is no docker.
ARG TRITON_IMAGE=nvcr.io/nvidia/tritonserver:26.06-py3@sha256:a40838bb4587d2aceb46b1e7fd144afb24c9016c219dd3eba31716e4e28dbfc7
ARG RUST_IMAGE=rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1

FROM ${RUST_IMAGE} AS build
# bindgen reads wrapper.h through libclang when the package is built.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang1-14 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The checkout's history is not copied: --build-arg COMMIT=$(git rev-parse --short HEAD) puts its name into --version.
ARG COMMIT=
ENV TRITON_BENCH_COMMIT=${COMMIT}
RUN cargo build --profile dist --locked -p triton-bench \
    && scripts/packaging/install-tree target/dist /out \
    && install -D -m 755 scripts/container/entrypoint /out/libexec/triton-bench/entrypoint

FROM ${TRITON_IMAGE}
COPY --from=build /out/ /usr/local/
# The C library of some images is older than the build image's: fail here, not at the user's, if that ever matters.
RUN triton-bench --version && perf_analyzer --version
# Measuring needs no privileges. 1000 is triton-server in the official image.
USER 1000
WORKDIR /tmp
# NVIDIA's own entry point, and then triton-bench.
ENTRYPOINT ["/usr/local/libexec/triton-bench/entrypoint"]
