package sampling_test

import (
	"slices"
	"strings"
	"testing"

	"minsep/internal/stream"
	"minsep/sampling"

	"pgregory.net/rapid"
)

// formRotation draws batches of rows by the definition: of each period its pool.
func formRotation(s sampling.Rotation, pools *sampling.PoolMembers, members func(row int64) []uint32, rows int64) [][]int64 {
	src := stream.NewSource(stream.PublicKey("test", nil))
	batches := make([][]int64, s.Steps)
	for row := range rows {
		steps := s.Process().Draw(nil, src.Stream(src.IntAddress(row, 0)), row)
		for _, step := range s.In(steps, members(row), pools.Number) {
			batches[step] = append(batches[step], row)
		}
	}
	return batches
}

// starPools are three pools: rows 0 to 2 belong to owner 0 and are in one pool each; rows 3 and 4
// have owners of their own and are in every pool.
func starPools() (*sampling.PoolMembers, *sampling.Owners) {
	pools, owners := &sampling.PoolMembers{Number: 3, Size: 3}, new(sampling.Owners)
	for row := range 5 {
		if row < 3 {
			pools.Of = append(pools.Of, uint32(row))
			owners.Of = append(owners.Of, 0)
		} else {
			pools.Of = append(pools.Of, 0, 1, 2)
			owners.Of = append(owners.Of, int32(row))
		}
		pools.Ends, owners.Ends = append(pools.Ends, len(pools.Of)), append(owners.Ends, len(owners.Of))
	}
	return pools, owners
}

func membersOf(p *sampling.PoolMembers) func(row int64) []uint32 {
	return func(row int64) []uint32 {
		start := 0
		if row > 0 {
			start = p.Ends[row-1]
		}
		return p.Of[start:p.Ends[row]]
	}
}

func brokenChecks(s sampling.Spec, of sampling.Audited, batches [][]int64) string {
	a := sampling.NewAudit(s, of)
	for _, b := range batches {
		a.Step(b)
	}
	var broken []string
	for _, c := range a.Checks() {
		if !c.Held {
			broken = append(broken, c.Name)
		}
	}
	return strings.Join(broken, ", ")
}

// TestRotationAudit accepts batches by the definition, with any period, and finds planted faults by
// name.
func TestRotationAudit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sampling.Rotation{Steps: rapid.IntRange(1, 40).Draw(t, "steps"), EpochSteps: rapid.IntRange(1, 12).Draw(t, "period")}
		pools, owners := starPools()
		of := sampling.Audited{Examples: 5, Pools: pools, Owners: owners}
		batches := formRotation(s, pools, membersOf(pools), 5)
		if broken := brokenChecks(sampling.Spec{Rotation: &s}, of, batches); broken != "" {
			t.Fatalf("broken: %s", broken)
		}
	})
	s := sampling.Rotation{Steps: 24, EpochSteps: 4}
	for _, c := range []struct {
		name, broken string
		plant        func(p *sampling.PoolMembers, batches [][]int64) [][]int64
	}{
		{"a pool in which an owner has two examples", "owners in a period", func(p *sampling.PoolMembers, batches [][]int64) [][]int64 {
			// Row 0 is in pool 1 as well, which has one example more.
			p.Of = slices.Insert(p.Of, 1, 1)
			for i := range p.Ends {
				p.Ends[i]++
			}
			for _, e := range []int{1, 4} {
				batches[4*e] = slices.Insert(batches[4*e], 0, 0)
			}
			return batches
		}},
		{"periods that are off by one step", "pools of batches, periods", func(_ *sampling.PoolMembers, batches [][]int64) [][]int64 {
			return append(batches[1:], batches[0])
		}},
		{"periods that are off by one pool", "pools of batches, periods", func(_ *sampling.PoolMembers, batches [][]int64) [][]int64 {
			return append(batches[4:], batches[:4]...)
		}},
		{"an example that takes part twice", "periods", func(_ *sampling.PoolMembers, batches [][]int64) [][]int64 {
			for step := range 4 {
				if !slices.Contains(batches[step], 3) {
					batches[step] = append(batches[step], 3)
					slices.Sort(batches[step])
					break
				}
			}
			return batches
		}},
		{"an example that is left out of a period", "periods", func(_ *sampling.PoolMembers, batches [][]int64) [][]int64 {
			for step := range 4 {
				batches[step] = slices.DeleteFunc(batches[step], func(row int64) bool { return row == 4 })
			}
			return batches
		}},
	} {
		pools, owners := starPools()
		batches := c.plant(pools, formRotation(s, pools, membersOf(pools), 5))
		broken := brokenChecks(sampling.Spec{Rotation: &s}, sampling.Audited{Examples: 5, Pools: pools, Owners: owners}, batches)
		if got := strings.TrimSuffix(broken, ", participations"); !strings.HasPrefix(got, c.broken) {
			t.Errorf("%s: broken: %q, want %q", c.name, broken, c.broken)
		}
	}
}

// TestRotationSpread finds batches that keep every rule for single examples and are not random: a
// period's examples all at one step, or at the same places in each period.
func TestRotationSpread(t *testing.T) {
	const rows = 400
	s := sampling.Rotation{Steps: 30, EpochSteps: 4}
	pools := &sampling.PoolMembers{Number: 1, Size: rows}
	for range rows {
		pools.Of = append(pools.Of, 0)
		pools.Ends = append(pools.Ends, len(pools.Of))
	}
	random := formRotation(s, pools, membersOf(pools), rows)
	for broken, place := range map[string]func(row, step int) bool{
		"": func(row, step int) bool { return slices.Contains(random[step], int64(row)) },
		"spread over steps": func(row, step int) bool {
			return (row+step/4)%4 == 0 && step%4 == 1 || (row+step/4)%4 != 0 && step%4 == 2
		},
		"places": func(row, step int) bool { return step%4 == row%4 },
	} {
		batches := make([][]int64, s.Steps)
		for step := range batches {
			for row := range rows {
				if place(row, step) {
					batches[step] = append(batches[step], int64(row))
				}
			}
		}
		got := brokenChecks(sampling.Spec{Rotation: &s}, sampling.Audited{Examples: rows, Pools: pools}, batches)
		if !strings.HasPrefix(got, broken) || broken == "" && got != "" {
			t.Errorf("broken: %q, want %q", got, broken)
		}
	}
}
