package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// A daemon is made of three processes that run this program with the same
// arguments (CFG A20, A24):
//
//	parent   waits at the pipe, says what comes out of it, exits
//	leader   starts a session, then the daemon, exits
//	daemon   has no terminal and, leading no session, gets none
//
// The environment variable stageVar tells the last two who they are; descriptor
// 3 is their end of the pipe. The daemon writes `ok` there once its configuration
// is applied (CFG A16), or the reason why not.
const (
	stageVar    = "QDROUTERD_DAEMON_STAGE"
	stageLeader = "leader"
	stageDaemon = "daemon"
	reportFD    = 3
)

func (c *command) runDaemon() int {
	stage := os.Getenv(stageVar)
	if stage == "" {
		return c.daemonParent()
	}
	report := os.NewFile(reportFD, "report")
	fail := func(err error) int {
		fmt.Fprintf(report, "%s: %v\n", c.argv0, err)
		return 1
	}
	if stage == stageLeader {
		if err := again(stageDaemon, report, nil); err != nil {
			return fail(err)
		}
		return 0
	}
	os.Unsetenv(stageVar)
	syscall.CloseOnExec(reportFD)
	if err := c.settle(); err != nil {
		return fail(err)
	}
	return c.run(report)
}

// daemonParent starts the daemon and returns its exit status.
func (c *command) daemonParent() int {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.argv0, err)
		return 1
	}
	err = again(stageLeader, w, &syscall.SysProcAttr{Setsid: true})
	w.Close()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.argv0, err)
		return 1
	}
	result, err := io.ReadAll(r) // ends when the daemon has closed its end
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.argv0, err)
		return 1
	case string(result) == "ok":
		return 0
	case len(result) == 0:
		fmt.Fprintf(os.Stderr, "%s: the daemon ended before it had started\n", c.argv0)
		return 1
	}
	os.Stderr.Write(result)
	return 1
}

// again starts this program anew as the given stage, with nothing open but the
// null device and report.
func again(stage string, report *os.File, attr *syscall.SysProcAttr) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Cmd{
		Path:        self,
		Args:        os.Args,
		Env:         append(os.Environ(), stageVar+"="+stage),
		ExtraFiles:  []*os.File{report},
		SysProcAttr: attr,
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if stage != stageLeader {
		return cmd.Process.Release()
	}
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil // the leader has told its reason through the pipe
}

// settle makes the process the daemon it is to be, in the order of CFG A20. The
// pid file is written before the configuration is read and stays (CFG A21).
func (c *command) settle() error {
	syscall.Umask(0o022) // CFG A23
	if c.named {
		path, err := filepath.Abs(c.config)
		if err != nil {
			return err
		}
		c.config = path
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if c.pidfile != "" {
		if err := os.WriteFile(c.pidfile, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
			return fmt.Errorf("Can't write pidfile: %w", err) //lint:ignore ST1005 text of 1.19
		}
	}
	if c.user != "" {
		return become(c.user)
	}
	return nil
}

// become switches to the user and, where we may, to its groups (CFG A22).
func become(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("Can't look up user %s: %w", name, err) //lint:ignore ST1005 text of 1.19
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := joinGroups(u); err != nil {
			return fmt.Errorf("Can't set groups for user %s: %w", name, err) //lint:ignore ST1005 text of 1.19
		}
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("Can't set user ID for user %s: %w", name, err) //lint:ignore ST1005 text of 1.19
	}
	return nil
}

func joinGroups(u *user.User) error {
	primary, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return err
	}
	var groups []int
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		groups = append(groups, gid)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	return syscall.Setgid(primary)
}
