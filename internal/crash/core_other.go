//go:build !unix

package crash

func noCore() {}
