package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"minsep/accounting"
	"minsep/internal/printable"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/planner"
	"minsep/sampling/stream"
)

// States of an inspected directory.
const (
	StateCertified    = "certified"     // every check holds, and a certificate is there
	StateNotCertified = "not certified" // every check holds, and nothing certifies the training
	StateBroken       = "broken"        // a check does not hold
)

// Report is an inspection with its verdict. Realized of its folders is secret.
type Report struct {
	State   string       `json:"state"`   // one of the States
	Verdict string       `json:"verdict"` // the promise, the missing part or the fault, in one line
	Folders []Inspection `json:"folders"` // the findings in each

	// Attacks bounds the success of a membership test of the protected unit, as the certificate
	// implies (F6.1); nil unless State is StateCertified.
	Attacks *accounting.AttackBounds `json:"attacks,omitempty"`

	// Weak says why the claim protects next to nobody, though it is certified: of each reason a
	// sentence. Nil where none is known, and unless State is StateCertified.
	Weak []string `json:"weak,omitempty"`

	// Owners is how many owners have an example; where single examples are protected, how many
	// examples there are. 0 where it is not known, and unless State is StateCertified.
	Owners int64 `json:"owners,omitempty"`

	// Kept says how much of the data takes part, and how to keep more; "" where all of it does,
	// or that is not known.
	Kept string `json:"kept,omitempty"`

	// StepNoise is the noise of one step beside DP-SGD's (F1.2); nil where there is no noise
	// that is certified, or nothing to compare it with.
	StepNoise *planner.StepNoise `json:"step_noise,omitempty"`

	// Exposed is the result of [ExposedModes], where that was asked for: it does not change the
	// verdict.
	Exposed []Exposed `json:"exposed,omitempty"`

	// CopyOf is the result of [registry.CopyOf], where that was asked for: it does not change the
	// verdict.
	CopyOf string `json:"copy_of,omitempty"`
	// LaterRun is the result of [registry.LaterRun], where that was asked for: it does not change the
	// verdict.
	LaterRun stream.RunID `json:"later_run,omitzero"`
	// Damaged is the result of [registry.Damaged], where that was asked for: it does not change the
	// verdict.
	Damaged []string `json:"damaged_records,omitempty"`
}

// Judge comes to a verdict on the findings of [Directory] and [Recheck].
func Judge(found []Inspection) Report {
	r := Report{Folders: found}
	for _, i := range found {
		r.Kept += i.keptText
	}
	faults, old := failedChecks(found), outdated(found)
	if faults != nil {
		old = strings.TrimSuffix(shortened(faults)+"; "+old, "; ")
	}
	if old != "" {
		r.State, r.Verdict = StateBroken, "BROKEN: "+old
		return r
	}
	file, certificate := certificateOf(found)
	switch {
	case certificate == nil:
		r.State, r.Verdict = StateNotCertified, "NOT CERTIFIED: "+without(found)
	case certificate.Status != accounting.Verified:
		r.State = StateNotCertified
		r.Verdict = fmt.Sprintf("NOT CERTIFIED: %s is of status %q; %s", file, certificate.Status, matching(found))
	default:
		attacks := certificate.AttackBounds()
		r.State, r.Attacks = StateCertified, &attacks
		r.Owners = ownersOf(found, certificate)
		r.Weak = certificate.Guarantee().Weak(r.Owners)
		word := "certified: "
		if r.Weak != nil {
			word = "certified, but weak: "
		}
		r.Verdict = word + claimed(certificate) + ", " + matching(found)
		for _, i := range found {
			if i.stepNoise != nil {
				r.StepNoise = i.stepNoise
			}
		}
	}
	return r
}

// ownersOf is how many owners have an example; where single examples are protected, how many
// examples there are. 0 where it is not known.
func ownersOf(found []Inspection, c *accounting.Certificate) (owners int64) {
	for _, i := range found {
		if i.kept > 0 && c.Unit == accounting.UnitExample {
			return i.kept
		}
		owners = max(owners, i.owners)
	}
	return owners
}

// Err returns [ErrFailedCheck] if any check is broken.
func (r Report) Err() error { return Broken(r.Folders) }

// claimed states a certificate's claim in words.
func claimed(c *accounting.Certificate) string {
	return fmt.Sprintf("(%g, %g)-DP for %s", c.Epsilon, c.Delta, c.Protected())
}

// failedChecks are the checks that do not hold, each with its folder, but for those that [outdated]
// tells.
func failedChecks(found []Inspection) (faults []string) {
	for _, i := range found {
		for _, p := range i.Checks {
			if p.Held || slices.Contains(i.old, p.Name) {
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

// shortened is a list in one line: the first of it, and how many more there are.
func shortened(list []string) string {
	const most = 2
	text := strings.Join(list[:min(most, len(list))], "; ")
	if len(list) > most {
		text += fmt.Sprintf("; and %d more", len(list)-most)
	}
	return text
}

// certificateOf is the certificate that was found, and the name of its file.
func certificateOf(found []Inspection) (file string, c *accounting.Certificate) {
	for _, i := range found {
		if i.certificate != nil {
			return i.kind, i.certificate
		}
	}
	return "", nil
}

func isThere(found []Inspection, folder string) bool {
	return slices.ContainsFunc(found, func(i Inspection) bool { return i.kind == folder })
}

// matching says which of batches and noise match the certificate, and which are not there.
func matching(found []Inspection) string {
	batches, noise := isThere(found, manifest.BatchesFolder), isThere(found, manifest.NoiseFolder)
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

// without describes a directory without a certificate.
func without(found []Inspection) string {
	var there []string
	for _, place := range places("") {
		if place.kind != manifest.RunName && isThere(found, place.kind) {
			there = append(there, place.kind)
		}
	}
	what := ""
	if there != nil {
		what = "; every check of " + strings.Join(there, ", ") + " passes"
	}
	if !isThere(found, manifest.RunName) {
		return "a single folder says nothing of privacy: inspect the run directory" + what
	}
	if refused := refusal(found); refused != "" {
		return "there is no certificate, and account makes none: " + refused + what
	}
	return "there is no certificate: minsep account makes one" + what
}

// refusal says why nothing certifies batches and noise that are there: no analysis is known of
// their sampler with their strategy. It is "" where one is known, or that cannot be seen.
func refusal(found []Inspection) string {
	run := accounting.Run{MaxExamplesPerOwner: 1, Examples: 1} // with more of either, less is known
	for _, i := range found {
		if i.sampler != nil {
			run.Sampler = *i.sampler
		}
		if i.strategy != nil {
			run.Strategy = i.strategy
		}
	}
	if run.Strategy == nil || run.Sampler.Validate() != nil {
		return ""
	}
	method, err := run.Method()
	var bad *accounting.RefusedError
	switch {
	case errors.As(err, &bad):
		return bad.Scheme + ": " + bad.Reason
	case err == nil && method == accounting.Unproven:
		return "the published accounting is not proven"
	}
	return ""
}
