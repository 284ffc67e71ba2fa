package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"minsep/internal/store"
	"minsep/mechanism"
)

// ReadWorkloadFile reads the workload of a strategy's parameters, or its learning rates, where they
// name a file, which may be an object; otherwise it returns nil.
func ReadWorkloadFile(ctx context.Context, p mechanism.Params) (*mechanism.Workload, error) {
	path := p.WorkloadFile()
	if path == "" {
		return nil, nil
	}
	name, rule := "workload", "must be prefix, momentum, training or a file"
	if path == p.Schedule {
		name, rule = "schedule", "must be a file, or one of "+strings.Join(mechanism.Schedules, ", ")
	}
	f, err := store.Open(ctx, path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &ParamError{Package: "stages", Param: name, Value: path, Rule: rule + "; there is no such file"}
		}
		return nil, fmt.Errorf("%w: %w", &ParamError{Package: "stages", Param: name, Value: path, Rule: rule}, err)
	}
	defer f.Close()
	a, err := p.ReadWorkload(io.LimitReader(store.Text(f), maxText))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &ParamError{Package: "stages", Param: name, Value: path, Rule: "cannot be used"}, err)
	}
	return a, nil
}

// MakeStrategy makes the strategy of parameters. One that is too large to make is a fault of the
// parameters.
func MakeStrategy(ctx context.Context, p mechanism.Params) (*mechanism.Strategy, error) {
	workload, err := ReadWorkloadFile(ctx, p)
	if err != nil {
		return nil, err
	}
	s, err := p.Make(ctx, workload)
	if errors.Is(err, mechanism.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", &ParamError{Package: "stages", Param: "strategy", Value: p.Kind, Rule: "must be smaller"}, err)
	}
	return s, err
}
