package pipelines

import (
	"context"
	"os"

	"minsep/internal/store"
	_ "minsep/internal/store/gs" // gs://
	_ "minsep/internal/store/s3" // s3://
)

// maxSmall bounds the files that are read whole, in bytes: certificates, requests, plans.
const maxSmall = 1 << 30

// ReadFile returns the contents of a file, which may be local or in an object store.
func ReadFile(ctx context.Context, name string) ([]byte, error) {
	if store.IsLocal(name) { // pipes too
		return os.ReadFile(name)
	}
	return store.ReadFile(ctx, name, maxSmall)
}
