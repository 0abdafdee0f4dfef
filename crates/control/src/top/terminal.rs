//! A terminal of which the whole screen is used for a while, and that is left as it was found.
#![expect(unsafe_code, reason = "terminal modes are set by the C library alone")]

use std::io::{self, Read, Write, stdin, stdout};
use std::mem::MaybeUninit;
use std::time::Duration;

/// What was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// `q`, escape, ctrl-c or ctrl-d, or nothing can be pressed any more.
    Quit,
    /// Anything else.
    Other,
}

/// The terminal, until dropped.
pub(super) struct Terminal {
    before: libc::termios,
}

impl Terminal {
    /// Takes the screen. Keys come at once, ctrl-c among them, and are not shown.
    pub(super) fn enter() -> io::Result<Self> {
        let mut modes = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the call writes one `termios`, and is given room for one.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, modes.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has succeeded and written it.
        let before = unsafe { modes.assume_init() };
        let mut modes = before;
        modes.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        set(&modes)?;
        let terminal = Terminal { before };
        // The other screen, without a cursor.
        put("\x1b[?1049h\x1b[?25l")?;
        Ok(terminal)
    }

    /// Shows the text, as much of it as there is room for.
    pub(super) fn show(&mut self, text: &str) -> io::Result<()> {
        let rows = rows().unwrap_or(usize::MAX);
        // Line by line over what was there, which does not flicker; long lines are cut, not wrapped.
        let mut out = String::from("\x1b[?7l\x1b[H");
        for (number, line) in text.lines().take(rows).enumerate() {
            if number > 0 {
                out.push_str("\r\n");
            }
            out.push_str(line);
            out.push_str("\x1b[K");
        }
        out.push_str("\x1b[J\x1b[?7h");
        put(&out)
    }

    /// The next key, if one is pressed within `limit`.
    pub(super) fn key(&mut self, limit: Duration) -> io::Result<Option<Key>> {
        let mut poll = libc::pollfd {
            fd: libc::STDIN_FILENO,
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = limit.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: the call reads and writes one `pollfd`, and is given one.
        match unsafe { libc::poll(&raw mut poll, 1, milliseconds) } {
            0 => return Ok(None),
            n if n < 0 => {
                let error = io::Error::last_os_error();
                // Another size of the window, for instance: the screen is drawn anew.
                return match error.kind() {
                    io::ErrorKind::Interrupted => Ok(None),
                    _ => Err(error),
                };
            }
            _ => {}
        }
        let mut pressed = [0; 64];
        let length = stdin().lock().read(&mut pressed)?;
        Ok(Some(match &pressed[..length] {
            [] | [27] => Key::Quit,
            keys if keys.iter().any(|key| b"qQ\x03\x04".contains(key)) => Key::Quit,
            _ => Key::Other,
        }))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Nothing better can be done where that fails.
        let _ = put("\x1b[?25h\x1b[?1049l");
        let _ = set(&self.before);
    }
}

fn set(modes: &libc::termios) -> io::Result<()> {
    // SAFETY: the call reads one `termios`, and is given one.
    match unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, modes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn rows() -> Option<usize> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: the call writes one `winsize`, and is given room for one.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, size.as_mut_ptr()) };
    // SAFETY: all zeros is a `winsize`, whether it was written or not.
    let rows = unsafe { size.assume_init() }.ws_row;
    (result == 0 && rows > 0).then_some(rows.into())
}

fn put(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
