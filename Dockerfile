# The gateway as a static binary in an image without a shell, run by a user without rights; its root file system may be read-only.
#
#   make image
#   docker run --read-only --cap-drop ALL --security-opt no-new-privileges --stop-timeout 60 -p 127.0.0.1:8080:8080 \
#     --mount "type=bind,src=$PWD/deploy/secrets/gateway.key,dst=/run/secrets/drawbridge.key,readonly" drawbridge
#
# The config in the image (deploy/drawbridge.container.yaml) says what it needs. Without a key the gateway refuses to start.
# The history of the repository is not sent to the builder, so make image says what it is built from: VERSION, COMMIT and DATE.
# There is no "# syntax" line on purpose: BuildKit would fetch that frontend from a registry. What is used here it has had since
# engine 20.10, where it wants DOCKER_BUILDKIT=1.

# Each base has its tag for people and its digest for the builder. Name others to take them from a mirror, or as they are on this
# machine: --build-arg GO_IMAGE=golang:1.26.8
ARG GO_IMAGE=golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot@sha256:d093aa3e30dbadd3efe1310db061a14da60299baff8450a17fe0ccc514a16639

# What go.mod names is fetched again only when it changes. What was compiled stays in a cache of the builder.
FROM ${GO_IMAGE} AS source
WORKDIR /src
RUN mkdir -p /out/audit
COPY go.mod go.sum ./
RUN go mod download
COPY . .

FROM source AS build
ARG VERSION=devel
ARG COMMIT
ARG DATE
RUN --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -o /out/drawbridge \
    -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT} -X main.date=${DATE}" ./cmd/drawbridge

# A small MCP server to put behind the gateway in docker-compose.yml: the knowledge graph from the examples of the official Go SDK,
# in the version that go.mod pins for the tests. It is no part of the gateway's image.
FROM source AS build-example
RUN --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/memory github.com/modelcontextprotocol/go-sdk/examples/server/memory

FROM ${BASE_IMAGE} AS example
COPY --from=build-example /out/memory /memory
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/memory"]
CMD ["-http", "0.0.0.0:8080"]

FROM ${BASE_IMAGE} AS gateway
COPY --from=build /out/drawbridge /drawbridge
COPY deploy/drawbridge.container.yaml /etc/drawbridge/drawbridge.yaml
COPY LICENSE /LICENSE
COPY --from=build --chown=65532:65532 /out/audit /var/lib/drawbridge
USER 65532:65532
# 8080 is for clients. 9090 is the operator's (metrics, health): never publish it to clients.
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 CMD ["/drawbridge", "healthcheck"]
ENTRYPOINT ["/drawbridge"]
CMD ["serve", "-config", "/etc/drawbridge/drawbridge.yaml"]
