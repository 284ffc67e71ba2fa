package graphio

// SetFreeUnits sets for how many edges any file may stand, and returns a function that sets it back.
func SetFreeUnits(n int64) (restore func()) {
	before := freeUnits
	freeUnits = n
	return func() { freeUnits = before }
}
