package transforms

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ledger"
	"minsep/internal/store"
	"minsep/internal/transforms/losses"
	"minsep/privacy"
)

// SumLosses draws the samples of a verification: units is a PCollection<[]byte> of units of a
// protocol, as [privacy.Draw] gets them, and the result a PCollection<[]byte> of their sums, as it
// returns them. Workers must have the processor features of the machine that made the protocol.
func SumLosses(s beam.Scope, protocol []byte, units beam.PCollection) (beam.PCollection, error) {
	return losses.Sum(s, losses.Config{Protocol: string(protocol)}, units)
}

// OnRunner has workers of a runner draw the samples of [privacy.Certify]. run runs a pipeline, as
// beamx.Run does. dir is an empty folder, in which the workers leave sums and from which
// this process takes them: a shared one, or an object store's, if they are on other machines.
func OnRunner(dir string, run func(context.Context, *beam.Pipeline) error) privacy.Draw {
	return func(ctx context.Context, protocol []byte, units [][]byte) ([][]byte, error) {
		if dir == "" {
			return nil, errors.New("OnRunner is given no folder: name one that workers and this process share")
		}
		dir, err := store.Abs(dir) // workers may run in another folder
		if err != nil {
			return nil, err
		}
		p, s := beam.NewPipelineWithRoot()
		if _, err := losses.Sum(s, losses.Config{Protocol: string(protocol), Dir: dir}, beam.CreateList(s, units)); err != nil {
			return nil, err
		}
		if err := run(ctx, p); err != nil {
			return nil, Fault(err)
		}
		var sums [][]byte
		err = losses.Collect(ctx, dir, func(entries []ledger.Entry) error {
			for _, e := range entries {
				b, err := json.Marshal(e)
				if err != nil {
					return err
				}
				sums = append(sums, b)
			}
			return nil
		})
		return sums, err
	}
}
