package accounting

import (
	"fmt"

	"minsep/internal/param"
)

// Unit is the unit that a claim protects.
type Unit string

// The two units. In a [Protocol] the empty Unit is UnitOwner.
const (
	// UnitOwner protects an owner with at most k_u examples, [Run.MaxExamplesPerOwner]. With k_u =
	// 1 this is an example, except where owners follow the sampler (sampling.OwnerSampling): there
	// it protects an owner with any number of examples.
	UnitOwner Unit = "owner"
	// UnitExample protects single examples only, however many an owner has. Users must ask for it
	// by name.
	UnitExample Unit = "example"
)

// ParseUnit reads the name of a unit; "" is UnitOwner.
func ParseUnit(name string) (Unit, error) {
	switch u := Unit(name); u {
	case "", UnitOwner:
		return UnitOwner, nil
	case UnitExample:
		return u, nil
	}
	return "", &param.Error{Param: "unit", Value: fmt.Sprintf("%q", name), Rule: "must be owner or example"}
}

// protected says in words whom a claim about a run protects. It says in capitals that owners are
// not protected, because readers may be in haste.
func (u Unit) protected(run Run) string {
	examplesPerOwner := run.MaxExamplesPerOwner
	switch {
	case run.Sampler.Owners != nil:
		return "an owner with any number of examples"
	case u == UnitExample:
		return "SINGLE EXAMPLES ONLY: AN OWNER OF SEVERAL EXAMPLES IS NOT PROTECTED"
	case run.Sampler.Rotation != nil:
		return "an owner with any number of examples, at most one in each pool"
	case examplesPerOwner > 1:
		return fmt.Sprintf("an owner of whom at most %d examples are kept", examplesPerOwner)
	}
	return "an owner of whom one example is kept"
}

// ownersSampled is the reason why single examples cannot be protected where owners follow the
// sampler.
const ownersSampled = "must be owner where owners are sampled: the trainer clips one mean for each owner, and no single example"
