package server

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"qdrouter/logging"
)

// announceMemory writes the second line of CFG A26, where the system tells.
func (s *Server) announceMemory() {
	vm := kibibytes("/proc/self/status", "VmSize:")
	ram := kibibytes("/proc/meminfo", "MemTotal:")
	if vm > 0 && ram > 0 {
		s.logf(logging.Server, logging.Notice, "Process VmSize %s (%s available memory)", showSize(vm), showSize(ram))
	}
}

// kibibytes reads a line such as "VmSize:   1234 kB"; 0 if there is none.
func kibibytes(path, key string) uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseUint(f[0], 10, 64)
				return n
			}
		}
	}
	return 0
}

func showSize(kib uint64) string {
	size, units := float64(kib), []string{"KiB", "MiB", "GiB", "TiB"}
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	return fmt.Sprintf("%.2f %s", size, units[0])
}

// processorTime is what this process has used of the machine's processors so far.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
