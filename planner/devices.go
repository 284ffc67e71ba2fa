package planner

import (
	"context"
	"fmt"
	"slices"

	"minsep/accounting/calibration"
	"minsep/internal/words"
)

// preferStateless puts first a row that keeps no state for its noise, if devices make the noise and
// the first row has only a little less of it. Devices would hold the state beside the model; when a
// training goes on, they would need it saved, or make the noise of all earlier steps again.
func (p *planning) preferStateless(ctx context.Context, rows []*Row) error {
	for p.NoiseDevices > 0 && rows[0].State > 0 && rows[0].Refused == "" {
		i := slices.IndexFunc(rows, func(row *Row) bool {
			return row.Refused == "" && row.State == 0 && sameData*row.Kept >= rows[0].Kept && row.Relative <= calibration.Little*rows[0].Relative
		})
		if i < 0 {
			return nil
		}
		row := rows[i]
		if !row.Noise.OneDirection {
			toFront(rows, i)
			return nil
		}
		p.say(row.Name() + ", the other direction")
		if err := p.both(ctx, row, true); err != nil {
			return err
		}
		order(rows[1:])
	}
	return nil
}

// onEach is the largest number of coordinates of a device.
func (r Request) onEach() int64 {
	devices := int64(max(1, r.NoiseDevices))
	return (r.Coordinates + devices - 1) / devices
}

// stateOnDevices returns a sentence on the memory that the noise of the first row takes on the
// devices that make it.
func (r Request) stateOnDevices(rows []*Row) string {
	row := rows[0]
	if row.State == 0 {
		return "The noise of the first keeps no state on the devices. The plan takes the words that devices make (--words chacha12), and writes no files of noise."
	}
	of := "of each coordinate that it holds"
	if r.Coordinates > 0 {
		of = fmt.Sprintf("of each of its %d coordinates, %.3g GB", r.onEach(), float64(row.State)*numberBytes*float64(r.onEach())/1e9)
	}
	text := fmt.Sprintf("The noise of the first keeps %s of 8 bytes on a device %s, and as much in a checkpoint; without the checkpoint a resume makes all earlier steps again (docs/large-models.md).", words.Count(row.State, "number"), of)
	if i := slices.IndexFunc(rows, func(other *Row) bool { return other.State == 0 && other.Refused == "" }); i > 0 {
		text += fmt.Sprintf(" The best without state is row %d, %s, with %s noise.", rows[i].Rank, rows[i].Name(), beside(rows[i], row))
	}
	return text
}
