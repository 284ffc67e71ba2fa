package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/planner"
	"minsep/internal/printable"
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

	// Exposed is the result of [ExposedModes], if the caller asked for it. It does not change the
	// verdict.
	Exposed []Exposed `json:"exposed,omitempty"`

	// Taken is the result of [ReadTaken], if the caller asked for it. It does not change the verdict.
	Taken *Taken `json:"taken,omitempty"`
}

// Judge gives the verdict on the findings of [Directory], [Resample] and [Recheck]. Of a certificate it
// says what was recomputed.
func Judge(found []Inspection) Report {
	r := Report{Folders: found}
	for _, i := range found {
		r.Kept += i.keptText
	}
	if faults := failedChecks(found); faults != nil {
		r.State, r.Verdict = StateBroken, "BROKEN: "+shortened(faults)
		if slices.ContainsFunc(found, func(i Inspection) bool { return i.locked }) {
			r.Verdict += "; another command holds this directory, and may be writing to it: inspect it again when that has ended"
		}
		return r
	}
	file, certificate := certificateOf(found)
	switch {
	case certificate == nil:
		r.State, r.Verdict = StateNotCertified, "NOT CERTIFIED: "+without(found)
	case certificate.Status != accounting.Verified:
		r.State = StateNotCertified
		r.Verdict = fmt.Sprintf("NOT CERTIFIED: %s has status %q; %s", file, certificate.Status, matching(found))
	default:
		attacks := certificate.AttackBounds()
		r.State, r.Attacks = StateCertified, &attacks
		r.Owners = ownersOf(found, certificate)
		r.Weak = certificate.Guarantee().Weak(r.Owners)
		word := "certified: "
		if r.Weak != nil {
			word = "certified, but weak: "
		}
		r.Recomputed = recomputed(found, certificate)
		r.Verdict = word + claimed(found, certificate) + ", " + matching(found) + "; " + r.Recomputed
		for _, i := range found {
			if i.stepNoise != nil {
				r.StepNoise = i.stepNoise
			}
			if i.kind == manifest.StatisticsFolder && i.Notes != nil {
				r.Verdict += "; private statistics add to this: see minsep compose"
			}
		}
	}
	return r
}

// ownersOf returns the number of owners with an example, or the number of examples where single
// examples are protected; 0 where it is not known.
func ownersOf(found []Inspection, c *accounting.Certificate) (owners int64) {
	for _, i := range found {
		if i.kept > 0 && c.Unit == accounting.UnitExample {
			return i.kept
		}
		owners = max(owners, i.owners)
	}
	return owners
}

// Err returns [ErrFailedCheck] if any check failed, and nil otherwise.
func (r Report) Err() error { return Broken(r.Folders) }

// claimed states a certificate's claim in words, with the nouns of run.json.
func claimed(found []Inspection, c *accounting.Certificate) string {
	var nouns words.Nouns
	for _, i := range found {
		nouns = nouns.NounsOr(i.nouns)
	}
	return fmt.Sprintf("(%g, %g)-DP for %s", c.Epsilon, c.Delta, c.Unit.Protected(c.Run, nouns))
}

// failedChecks returns the failed checks, each with its folder.
func failedChecks(found []Inspection) (faults []string) {
	for _, i := range found {
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

// certificateOf returns the certificate that was found and the name of its file, or nil.
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

// matching says whether batches and noise match the certificate, and which of them are missing.
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

// without is the verdict on a directory without a certificate.
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

// refusal says why no certificate is possible for the sampler and the strategy that were found: no
// analysis is known of the two together. It is "" where one is known, or where sampler or strategy
// is missing.
func refusal(found []Inspection) string {
	run := accounting.Run{
		MaxExamplesPerOwner: 1,
		Examples:            1,
	} // the most favourable run: fewer analyses hold for more of either
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
