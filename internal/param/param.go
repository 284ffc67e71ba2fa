// Package param reports faulty parameters, all of them in one pass.
//
// Every Validate method of minsep collects its faults with a [Checker] and returns them joined, so
// that a user corrects a plan once and not ten times.
package param

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"minsep/internal/printable"
)

// Error is a parameter with a value that breaks a rule. It never holds record contents, owner
// ids or keys.
type Error struct {
	Param string // the parameter in words, for example "min-sep"
	Value any    // as given; nil if none was given, or if it would tell nothing
	Rule  string // the rule it breaks, for example "must be at least 1"
	Field string // field of a plan, for example "noise.shards"; several with commas; "" outside plans
}

// Fault returns the fault of a parameter, with a rule that fmt.Sprintf formats.
func Fault(name string, value any, rule string, args ...any) *Error {
	return &Error{Param: name, Value: value, Rule: fmt.Sprintf(rule, args...)}
}

func (e *Error) Error() string {
	return e.Message(e.Param)
}

// Message formats the fault with another name for the parameter, such as its flag.
func (e *Error) Message(name string) string {
	if e.Value == nil {
		return name + ": " + e.Rule
	}
	return fmt.Sprintf("%s %s: %s", name, printable.Line(fmt.Sprint(e.Value)), e.Rule)
}

// Printable prepares a user's text for a message. It quotes the text if it is empty or has
// characters that a terminal does not show as they are.
func Printable(text string) string {
	if quoted := strconv.Quote(text); text == "" || quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// Each calls f for every Error that is joined or wrapped in err.
func Each(err error, f func(*Error)) {
	switch e := err.(type) {
	case nil:
	case *Error:
		f(e)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			Each(one, f)
		}
	case interface{ Unwrap() error }:
		Each(e.Unwrap(), f)
	}
}

// Checker collects the faults of one set of parameters. The zero value is ready to use.
type Checker struct{ errs []error }

// Require records a fault of the parameter name, with its value and the broken rule, unless ok.
func (c *Checker) Require(ok bool, name string, value any, rule string) {
	if !ok {
		c.errs = append(c.errs, &Error{Param: name, Value: value, Rule: rule})
	}
}

// Requiref is Require with a rule that fmt.Sprintf formats.
func (c *Checker) Requiref(ok bool, name string, value any, rule string, args ...any) {
	c.Require(ok, name, value, fmt.Sprintf(rule, args...))
}

// AtLeast requires value ≥ low.
func (c *Checker) AtLeast(name string, value, low int) {
	c.Requiref(value >= low, name, value, "must be at least %d", low)
}

// Positive requires a finite value > 0.
func (c *Checker) Positive(name string, value float64) {
	c.Require(value > 0 && !math.IsInf(value, 1), name, value, "must be a finite number above 0")
}

// Probability requires 0 < value ≤ 1.
func (c *Checker) Probability(name string, value float64) {
	c.Require(value > 0 && value <= 1, name, value, "must be above 0 and at most 1")
}

// Add records err, which may join several faults. It ignores nil.
func (c *Checker) Add(err error) {
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// Err returns every recorded fault joined, or nil.
func (c *Checker) Err() error { return errors.Join(c.errs...) }
