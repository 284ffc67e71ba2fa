package pipelines

import (
	"os"
	"slices"
	"testing"
)

// TestUnchanged: only mappings of files that nobody can write, and of which the process has changed
// nothing, are given back.
func TestUnchanged(t *testing.T) {
	entry := func(head, anonymous string) string {
		return head + "\nSize:                 12 kB\nRss:                   8 kB\n" + anonymous + "VmFlags: rd mr mw me sd\n"
	}
	const none, some = "Anonymous:             0 kB\n", "Anonymous:             4 kB\n"
	smaps := entry("00400000-00403000 r-xp 00000000 fe:00 10 /a program", none) +
		entry("00403000-00405000 r--p 00003000 fe:00 10 /a program", none) +
		entry("00405000-00407000 r--p 00003000 fe:00 10 /a program", some) + // relocated
		entry("00407000-00408000 r-xp 00003000 fe:00 10 /a program", some) + // with a breakpoint
		entry("00408000-00409000 rw-p 00003000 fe:00 10 /a program", none) +
		entry("00409000-0040a000 r--s 00003000 fe:00 10 /a program", none) +
		entry("0040a000-0040b000 r--p 00003000 fe:00 10 /a program", "") + // a system that does not say it
		entry("7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]", none) +
		entry("7fff2000-7fff3000 r--p 00000000 00:00 0", none)
	want := []mapping{{0x400000, 0x403000}, {0x403000, 0x405000}}
	if got := unchanged([]byte(smaps)); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := unchanged([]byte("no such text\nAnonymous: 0 kB\n1-2 r-xp 0 0 1 x")); len(got) > 0 {
		t.Errorf("%x", got)
	}
}

// TestLeaveProgram: the program goes on.
func TestLeaveProgram(t *testing.T) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	if len(unchanged(text)) == 0 {
		t.Error("nothing is found that could be given back")
	}
	leaveProgram()
	TestUnchanged(t)
}
