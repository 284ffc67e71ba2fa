package accounting

import (
	"fmt"
	"strings"

	"minsep/internal/param"
	"minsep/internal/words"
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

// Protected says, with the data's own nouns, whom a claim about a run protects. It says in capitals
// that owners are not protected, because readers may be in haste.
func (u Unit) Protected(run Run, nouns words.Nouns) string {
	examplesPerOwner := run.MaxExamplesPerOwner
	nouns = nouns.NounsOr(words.UsualNouns)
	owner, example, examples := words.A(nouns.OwnerNoun), nouns.ExampleNoun, words.Plural(nouns.ExampleNoun)
	switch {
	case run.Sampler.Owners != nil:
		return fmt.Sprintf("%s with any number of %s", owner, examples)
	case u == UnitExample:
		return strings.ToUpper(fmt.Sprintf("single %s only: %s of several %s is not protected", examples, owner, examples))
	case run.Sampler.Rotation != nil:
		return fmt.Sprintf("%s with any number of %s, at most one in each pool", owner, examples)
	case examplesPerOwner > 1:
		return fmt.Sprintf("%s of whom at most %d %s are kept", owner, examplesPerOwner, examples)
	}
	return fmt.Sprintf("%s of whom one %s is kept", owner, example)
}

// ownersSampled is the reason why single examples cannot be protected where owners follow the
// sampler.
const ownersSampled = "must be owner where owners are sampled: the trainer clips one mean for each owner, and no single example"
