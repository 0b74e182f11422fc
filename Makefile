# What there is to do with this checkout. Everything here is one command that can
# be run by itself; go test ./... needs no make.

export CGO_ENABLED = 0

.PHONY: build release packages test lint bench job-tokens search-eval soak chaos load noisy active outputs tenants release-check site

build: # the program, as ./sandpiper
	go build -o sandpiper ./cmd/sandpiper

release: # the same, as one file of a release: without debug data, local paths and unused parts of Python; VERSION=v1.2.3 names it
	GOOS= GOARCH= go run ./scripts/trim-python
	go build -modfile dist/trimmed/go.mod -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o sandpiper ./cmd/sandpiper

packages: # every file of a release, in dist/VERSION
	go run -C scripts/release . -version $(VERSION)

site: # the documentation as HTML, in dist/site
	go run -C scripts/site . -out dist/site

test:
	go test ./...
	go test -C bench ./...

lint:
	test -z "$$(gofmt -l *.go cmd internal bench examples packaging scripts)"
	go vet ./...
	go tool staticcheck ./...
	go vet -C bench ./...
	cd bench && $$(go tool -C .. -n staticcheck) ./...

bench: build # beside the other ways to run Python that are installed or can be fetched
	go run -C bench . peers -binary ../sandpiper

job-tokens: build # of a job with a tool and 10,000 rows, beside fastmcp
	go run -C bench . peers -binary ../sandpiper -table job

search-eval: # recall of the search by suite, cross-validated; needs ../shared/data; EMBEDDINGS_WHEEL=FILE adds a local model
	LONG_TESTS=1 go test ./internal/tool/catalog/search ./internal/feature/bench/cost -run 'TestCrossValidation|TestRecallWithUse|TestRecallOfFirstAnswer|TestCostPerSuccess' -count 1 -v -timeout 1h

soak: build # ten minutes at half of saturation; SOAK_MINUTES=60 for an hour
	go run -C bench . soak -binary ../sandpiper

chaos: build # a hundred kill -9 in each kind of work
	go run -C bench . chaos -binary ../sandpiper -rounds 100

load: build # a thousand tenants against one, with 200 callers; fifteen minutes
	go run -C bench . tenants -binary ../sandpiper load

noisy: build # a tenant beside another one that exceeds its quotas tenfold; three minutes
	go run -C bench . tenants -binary ../sandpiper noisy

active: build # 1 to 1,000 tenants that call in turn; four minutes
	go run -C bench . tenants -binary ../sandpiper active

outputs: build # a tenant beside another one whose executions print 20 MB; three minutes
	go run -C bench . tenants -binary ../sandpiper outputs

tenants: build # start and memory with ten thousand tenants
	go run -C bench . tenants -binary ../sandpiper idle

release-check: # all checks, the long ones too; over an hour, as root on Debian
	CI_PARTS=all .ci/run
