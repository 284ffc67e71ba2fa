package store

// RegisterMemory makes mem:// a store of a memory service, for tests outside the package.
func RegisterMemory() { o, _ := newMemory(); Register("mem", func() (FS, error) { return o, nil }) }
