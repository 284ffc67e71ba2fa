package pipelines

import (
	"context"
	"fmt"
	"io"

	"minsep/internal/store"
	"minsep/mechanism"
)

// ReadWorkloadFile reads the workload of a strategy's parameters, where they name a file, which may
// be an object; otherwise it returns nil.
func ReadWorkloadFile(ctx context.Context, p mechanism.Params) (*mechanism.Workload, error) {
	path := p.WorkloadFile()
	if path == "" {
		return nil, nil
	}
	f, err := store.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("pipelines: workload: must be prefix, momentum or a file: %w", err)
	}
	defer f.Close()
	a, err := mechanism.ReadWorkload(io.LimitReader(store.Text(f), maxText))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &ParamError{Package: "pipelines", Param: "workload", Value: path, Rule: "cannot be used"}, err)
	}
	return a, nil
}
