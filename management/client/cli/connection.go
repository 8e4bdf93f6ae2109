package cli

import (
	"context"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"qdrouter/management/client"
)

// A Connection holds the options of MG 11.1 and 11.3, which say where to
// connect, as whom, and which agent to ask there.
type Connection struct {
	Router     string // -r; its flag is the command's, see TargetFlags
	EdgeRouter string // -d

	bus              string
	timeout          Seconds
	certificate      string
	key              string
	trustFile        string
	keyPassword      string
	keyPasswordFile  string
	skipHostVerify   bool
	mechanisms       string
	user             string
	userPassword     string
	userPasswordFile string
}

// Flags returns the connection options.
func (c *Connection) Flags() *pflag.FlagSet {
	f := NewFlags()
	c.timeout = 5
	f.StringVarP(&c.bus, "bus", "b", "0.0.0.0", "`URL` of the router to connect to (default 0.0.0.0)")
	f.VarP(&c.timeout, "timeout", "t", "give up when a step takes longer than `SECS` seconds (default 5)")
	f.StringVar(&c.certificate, "ssl-certificate", "", "client certificate, from the PEM file `CERT`")
	f.StringVar(&c.key, "ssl-key", "", "private key of the client certificate, from the PEM file `KEY`")
	f.StringVar(&c.trustFile, "ssl-trustfile", "", "trusted certificate authorities, from the PEM file `TRUSTED-CA-DB`")
	f.StringVar(&c.keyPassword, "ssl-password", "", "`PASSWORD` of the private key")
	f.StringVar(&c.keyPasswordFile, "ssl-password-file", "", "read the password of the private key from `SSL-PASSWORD-FILE`")
	f.StringVar(&c.mechanisms, "sasl-mechanisms", "", "use none but these `SASL-MECHANISMS`, separated by blanks")
	f.StringVar(&c.user, "sasl-username", "", "authenticate as `SASL-USERNAME`")
	f.StringVar(&c.userPassword, "sasl-password", "", "authenticate with `SASL-PASSWORD`")
	f.StringVar(&c.userPasswordFile, "sasl-password-file", "", "read the password to authenticate with from `SASL-PASSWORD-FILE`")
	f.BoolVar(&c.skipHostVerify, "ssl-disable-peer-name-verify", false,
		"do not check that the router's certificate is for the host of the URL. INSECURE: not for use in production")
	markFiles(f, "ssl-certificate", "ssl-key", "ssl-trustfile", "ssl-password-file", "sasl-password-file")
	return f
}

// Values are those of the options of which a shell can complete them.
func (c *Connection) Values() map[string][]string {
	return map[string][]string{"sasl-mechanisms": {"ANONYMOUS", "EXTERNAL", "PLAIN"}}
}

// TargetFlags adds the options for the router to ask.
func (c *Connection) TargetFlags(f *pflag.FlagSet) {
	f.StringVarP(&c.Router, "router", "r", "", "ask the router `ROUTER-ID`")
	f.StringVarP(&c.EdgeRouter, "edge-router", "d", "", "ask the edge router `EDGE-ROUTER-ID`")
}

// Dial connects to the router and returns the connection with the address of
// the agent to ask.
func (c *Connection) Dial(ctx context.Context) (*client.Conn, string, error) {
	opts, err := c.options()
	if err != nil {
		return nil, "", err
	}
	conn, err := client.Dial(ctx, opts)
	return conn, opts.URL.AgentAddress(c.Router, c.EdgeRouter), err
}

func (c *Connection) options() (client.Options, error) {
	u, err := client.ParseURL(c.bus)
	if err != nil {
		return client.Options{}, err
	}
	if u.Scheme == client.SchemeAMQP && (c.certificate != "" || c.trustFile != "") {
		// The port stays that of the scheme in the URL.
		u.Scheme = client.SchemeAMQPS
	}
	opts := client.Options{
		URL:            u,
		Timeout:        c.timeout.Duration(),
		Certificate:    c.certificate,
		Key:            c.key,
		KeyPassword:    c.keyPassword,
		TrustFile:      c.trustFile,
		SkipHostVerify: c.skipHostVerify,
		Mechanisms:     strings.Fields(c.mechanisms),
		User:           first(c.user, u.User),
		Password:       first(c.userPassword, u.Password),
	}
	if err := readPassword(&opts.KeyPassword, c.keyPasswordFile); err != nil {
		return client.Options{}, err
	}
	return opts, readPassword(&opts.Password, c.userPasswordFile)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// readPassword replaces a password by the text of a file, if there is one.
func readPassword(password *string, file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	*password = strings.TrimSpace(string(text))
	return nil
}

// Seconds is a flag value that is a time in seconds.
type Seconds float64

// Set implements pflag.Value.
func (s *Seconds) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err == nil && math.IsNaN(v) {
		return strconv.ErrRange
	}
	*s = Seconds(v)
	return err
}

// String implements pflag.Value.
func (s *Seconds) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

// Type is what messages call the value.
func (s *Seconds) Type() string { return "float" }

// Duration cuts what is too long for a time.Duration, infinity included.
func (s *Seconds) Duration() time.Duration {
	const longest = 1e9
	return time.Duration(min(float64(*s), longest) * float64(time.Second))
}

// A Number is a flag value that is a decimal integer.
type Number int

// Set implements pflag.Value.
func (n *Number) Set(text string) error {
	v, err := strconv.Atoi(strings.TrimSpace(text))
	*n = Number(v)
	return err
}

// String implements pflag.Value.
func (n *Number) String() string { return strconv.Itoa(int(*n)) }

// Type is what messages call the value.
func (n *Number) Type() string { return "int" }
