package graphio

import (
	"context"
	"errors"
)

// Read reads the whole graph, split by split in order, as [Split.Read] does.
func (s *Source) Read(ctx context.Context, emit func(*Batch) error) error {
	var errs []error
	for i := range s.splits {
		err := s.splits[i].Read(ctx, s.fs, func(b *Batch) error {
			if len(errs) > 0 {
				return nil // only faults are looked for, so that one run finds several
			}
			return emit(b)
		})
		if err == nil {
			continue
		}
		errs = append(errs, err)
		if _, ok := errors.AsType[*Fault](err); !ok || len(errs) == MaxFaults {
			break
		}
	}
	return errors.Join(errs...)
}
