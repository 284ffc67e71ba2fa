package noise

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size in bytes of the pages that advise asks for.
const hugePage = 2 << 20

// advise asks for large pages for rows that have not been touched yet: faults of small pages take a
// twentieth of a stream's time. On a system without large pages nothing changes.
func advise(rows []float64) {
	if len(rows) < 4*hugePage/8 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), 8*len(rows))
	skip := -uintptr(unsafe.Pointer(&b[0])) % hugePage
	b = b[skip:]
	unix.Madvise(b[:len(b)/hugePage*hugePage], unix.MADV_HUGEPAGE) // advice
}

// hostMemory returns the bytes of this machine's memory.
func hostMemory() float64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return unknownMemory
	}
	return float64(info.Totalram) * float64(info.Unit)
}
