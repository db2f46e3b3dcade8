#!/usr/bin/env bash
# Builds what a release holds, as archives with SBOMs and checksums in dist/; builds it again
# in a clone elsewhere, which must give the same archives; signs the checksums with a key of its
# own and verifies them; and renders the chart. It publishes nothing. Needs goreleaser, syft,
# cosign and helm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

goreleaser check
# One build after the other, because an archive holds the binaries in the order they were built.
goreleaser release --snapshot --clean --parallelism=1 --skip=publish,sign
git clone --quiet . "$tmp/again"
(cd "$tmp/again" && goreleaser release --snapshot --clean --parallelism=1 --skip=publish,sign,sbom)
diff <(grep -v sbom dist/checksums.txt | sort) <(sort "$tmp/again/dist/checksums.txt")
echo "release-check: the archives are reproducible"

export COSIGN_PASSWORD=""
(cd "$tmp" && cosign generate-key-pair)
cosign sign-blob --key "$tmp/cosign.key" --use-signing-config=false --tlog-upload=false --yes \
  --bundle dist/checksums.txt.sigstore.json dist/checksums.txt
cosign verify-blob --key "$tmp/cosign.pub" --insecure-ignore-tlog --bundle dist/checksums.txt.sigstore.json dist/checksums.txt

helm lint --strict deploy/chart
helm package deploy/chart --version 0.0.0-snapshot --app-version v0.0.0-snapshot --destination dist
helm template liveactivity dist/liveactivity-0.0.0-snapshot.tgz --kube-version 1.30.0 --set ingress.enabled=true \
  --set serviceMonitor.enabled=true --set networkPolicy.enabled=true >dist/chart.yaml
