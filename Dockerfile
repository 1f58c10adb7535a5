# The gateway as a static binary in an image without a shell, run by a user without rights; its root file system may be read-only.
#
#   docker build -t drawbridge --build-arg VERSION=v1.0.0 .
#   docker run --read-only --cap-drop ALL --security-opt no-new-privileges --stop-timeout 40 -p 127.0.0.1:8080:8080 \
#     --mount "type=bind,src=$PWD/deploy/secrets/gateway.key,dst=/run/secrets/drawbridge.key,readonly" drawbridge
#
# The config in the image (deploy/drawbridge.container.yaml) says what it needs. Without a key the gateway refuses to start.
# Plain Dockerfile syntax on purpose: it builds offline and with old engines.

FROM golang:1.26 AS source
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .

FROM source AS build
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/drawbridge ./cmd/drawbridge

# A small MCP server to put behind the gateway in docker-compose.yml: the knowledge graph from the examples of the official Go SDK,
# in the version that go.mod pins for the tests. It is no part of the gateway's image.
FROM source AS build-example
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/memory github.com/modelcontextprotocol/go-sdk/examples/server/memory

FROM gcr.io/distroless/static-debian12:nonroot AS example
COPY --from=build-example /out/memory /memory
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/memory"]
CMD ["-http", "0.0.0.0:8080"]

FROM gcr.io/distroless/static-debian12:nonroot AS gateway
COPY --from=build /out/drawbridge /drawbridge
COPY deploy/drawbridge.container.yaml /etc/drawbridge/drawbridge.yaml
COPY LICENSE /LICENSE
USER 65532:65532
# 8080 is for clients. 9090 is the operator's (metrics, health): never publish it to clients.
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 CMD ["/drawbridge", "healthcheck"]
ENTRYPOINT ["/drawbridge"]
CMD ["serve", "-config", "/etc/drawbridge/drawbridge.yaml"]
