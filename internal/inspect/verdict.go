package inspect

import (
	"fmt"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/planner"
	"minsep/internal/printable"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
)

// States of an inspected directory.
const (
	StateCertified    = "certified"     // every check holds, and there is a verified certificate
	StateNotCertified = "not certified" // every check holds, but nothing certifies the training
	StateBroken       = "broken"        // a check failed
)

// Report is the result of an inspection with its verdict. Realized of its folders is secret.
type Report struct {
	State   string       `json:"state"`   // one of the states above
	Verdict string       `json:"verdict"` // in one line: the claim, the missing part, or the faults
	Folders []Inspection `json:"folders"` // the findings, by folder

	// Attacks bounds the success of a membership test against the protected unit, as the
	// certificate implies (F6.1). It is nil unless State is StateCertified.
	Attacks *accounting.AttackBounds `json:"attacks,omitempty"`

	// Weak says in a sentence for each reason why the claim, though certified, protects almost
	// nobody. It is nil if no reason is known, and unless State is StateCertified.
	Weak []string `json:"weak,omitempty"`

	// Recomputed says in words what was recomputed of the certificate's proof. It is "" unless State is
	// StateCertified.
	Recomputed string `json:"recomputed,omitempty"`

	// Owners is the number of owners with an example, or the number of examples where single
	// examples are protected. It is 0 where it is not known, and unless State is StateCertified.
	Owners int64 `json:"owners,omitempty"`

	// Kept says how much of the data takes part, and how to keep more of it. It is "" where all of
	// it does, or where that is not known.
	Kept string `json:"kept,omitempty"`

	// StepNoise compares the noise of one step with DP-SGD's (F1.2). It is nil without certified
	// noise, and where there is nothing to compare it with.
	StepNoise *planner.StepNoise `json:"step_noise,omitempty"`

	// Exposed are the secret files and folders that others may read. They do not change the verdict.
	Exposed []Exposed `json:"exposed,omitempty"`

	// Taken says how often the training has taken its steps. It does not change the verdict.
	Taken *Taken `json:"taken,omitempty"`

	Contents `json:"-"`
}

// judge gives the verdict on what was found. Of a certificate it says what was recomputed, and of a
// directory that a command holds that it may change.
func (r *Report) judge() {
	r.decide()
	if r.locked {
		r.Verdict += "; another command holds this directory, and may be writing to it: inspect it again when that has ended"
	}
}

// decide sets the state and all that follows from it.
func (r *Report) decide() {
	r.Kept = r.kept
	if faults := r.failedChecks(); faults != nil {
		r.State, r.Verdict = StateBroken, "BROKEN: "+shortened(faults)
		return
	}
	c := r.Certificate
	switch {
	case c == nil:
		r.State, r.Verdict = StateNotCertified, "NOT CERTIFIED: "+r.without()
	case c.Status != accounting.Verified:
		r.State = StateNotCertified
		r.Verdict = fmt.Sprintf("NOT CERTIFIED: %s has status %q; %s", stages.ClaimFile(c.Status), c.Status, r.matching())
	default:
		attacks := c.AttackBounds()
		r.State, r.Attacks, r.StepNoise = StateCertified, &attacks, r.stepNoise
		r.Owners = r.protected()
		r.Weak = c.Guarantee().Weak(r.Owners)
		word := "certified: "
		if r.Weak != nil {
			word = "certified, but weak: "
		}
		r.Recomputed = r.recomputed()
		whom := c.Unit.Protected(c.Run, r.Nouns())
		r.Verdict = fmt.Sprintf("%s(%g, %g)-DP for %s, %s; %s", word, c.Epsilon, c.Delta, whom, r.matching(), r.Recomputed)
		if r.Statistics != nil {
			r.Verdict += "; private statistics add to this: see minsep compose"
		}
	}
}

// Nouns are the nouns of run.json.
func (c *Contents) Nouns() (n words.Nouns) {
	if c.Info != nil {
		n = c.Info.Nouns
	}
	return n
}

// protected returns the number of owners with an example, or the number of examples if single examples
// are protected; 0 if it is not known.
func (c *Contents) protected() int64 {
	switch {
	case c.Bounded != nil && c.Certificate.Unit == accounting.UnitExample:
		return c.Bounded.Kept
	case c.Bounded != nil:
		return c.Bounded.Owners - c.Bounded.KeptPerOwner.Of(0)
	case c.Batches != nil && c.Batches.RowsOf == manifest.RowsOfRange:
		return c.Batches.Examples
	}
	return 0
}

// Err returns [ErrFailedCheck] if any check failed, and nil otherwise.
func (r *Report) Err() error {
	if r.State == StateBroken {
		return ErrFailedCheck
	}
	return nil
}

// failedChecks returns the failed checks, each with its folder.
func (r *Report) failedChecks() (faults []string) {
	for _, i := range r.Folders {
		for _, p := range i.Checks {
			if p.Held {
				continue
			}
			text := store.Base(i.Folder) + ": " + p.Name + ": " + strings.ReplaceAll(p.Rule, "\n", "; ")
			if p.Broken > 1 {
				text += fmt.Sprintf(" (broken %d times)", p.Broken)
			}
			faults = append(faults, printable.Line(text))
		}
	}
	return faults
}

// shortened joins the first entries of a list in one line, with the number of the rest.
func shortened(list []string) string {
	const most = 2
	text := strings.Join(list[:min(most, len(list))], "; ")
	if len(list) > most {
		text += fmt.Sprintf("; and %d more", len(list)-most)
	}
	return text
}

// matching says whether batches and noise match the certificate, and which of them are missing.
func (r *Report) matching() string {
	batches, noise := r.Batches != nil, r.Noise != nil
	switch {
	case batches && noise:
		return "batches and noise match"
	case batches:
		return "batches match; there is no noise"
	case noise:
		return "noise matches; there are no batches"
	}
	return "without batches and noise"
}

// without is the verdict on a directory without a certificate.
func (r *Report) without() string {
	var there []string
	for _, i := range r.Folders {
		if i.kind != manifest.RunName && i.kind != "" {
			there = append(there, i.kind)
		}
	}
	what := ""
	if there != nil {
		what = "; every check of " + strings.Join(there, ", ") + " passes"
	}
	if r.Info == nil {
		return "a single folder says nothing of privacy: inspect the run directory" + what
	}
	return "there is no certificate: minsep account makes one" + what
}
