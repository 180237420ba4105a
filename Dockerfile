# triton-bench inside the official Triton image, so that it measures the very server that will run in production:
#   docker build -t triton-bench .
#   docker run --rm --gpus all -v "$PWD/models:/models" triton-bench -m MODEL \
#       --service-kind triton_c_api --triton-server-directory /opt/tritonserver --model-repository /models
# Another Triton release: --build-arg TRITON_IMAGE=nvcr.io/nvidia/tritonserver:YY.MM-py3
ARG TRITON_IMAGE=nvcr.io/nvidia/tritonserver:24.10-py3
ARG RUST_IMAGE=rust:1.95-bookworm

FROM ${RUST_IMAGE} AS build
# bindgen reads wrapper.h through libclang when the package is built.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang1-14 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p triton-bench

FROM ${TRITON_IMAGE}
COPY --from=build /src/target/release/triton-bench /src/target/release/perf_analyzer /usr/local/bin/
# The image's C library is older than the build image's: fail here, not at the user's, if that ever matters.
RUN triton-bench --version && perf_analyzer --version
COPY LICENSE /usr/local/share/doc/triton-bench/LICENSE
ENTRYPOINT ["triton-bench"]
