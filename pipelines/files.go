package pipelines

import (
	"context"

	"minsep/internal/store"
	_ "minsep/internal/store/gs" // gs://
	_ "minsep/internal/store/s3" // s3://
)

// maxText bounds the files of text that are read whole, in bytes. Certificates and requests can hold a whole matrix.
const maxText = 8 << 30

// ReadFile returns the contents of a file of text, which may be local or in an object store.
func ReadFile(ctx context.Context, name string) ([]byte, error) {
	return store.ReadText(ctx, name, maxText)
}
