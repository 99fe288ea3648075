//! The live view: three lines that are drawn over each other while a benchmark runs on a terminal.
//!
//! Owns the text of the lines, as a function of numbers: how far, how fast over the last minute, how full the manager is. When
//! they are drawn is [`super::monitor`]'s affair, how a terminal is drawn over [`crate::console`]'s.

use super::usage::Usage;

/// Columns of the bar of progress.
const BAR: usize = 30;
/// Seconds that the sparkline shows.
pub const HISTORY: usize = 60;
/// Columns of the gauge.
const GAUGE: usize = 30;

/// How far a benchmark is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Of so many operations.
    Ops(u64),
    /// Of so many seconds.
    Seconds(u64),
    /// Nobody knows.
    Open,
}

/// What the view shows.
#[derive(Debug)]
pub struct View<'a> {
    /// The benchmark.
    pub name: &'a str,
    /// Operations so far.
    pub ops: u64,
    /// Seconds so far.
    pub seconds: f64,
    /// How many there will be.
    pub goal: Goal,
    /// Operations of each of the last seconds, oldest first.
    pub rates: &'a [u64],
    /// The 99th percentile of the last second in microseconds.
    pub p99: Option<u64>,
    /// The manager.
    pub usage: &'a Usage,
    /// Where the delay starts, in percent of the quota.
    pub start_percent: u32,
    /// Flushes running, and at most.
    pub flushes: (u64, u64),
    /// Files in level 0, by column family.
    pub l0: &'a [u64],
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
}

impl View<'_> {
    /// The three lines.
    pub fn lines(&self) -> [String; 3] {
        [self.progress(), self.speed(), self.gauge()]
    }

    fn progress(&self) -> String {
        let (share, of, left) = match self.goal {
            Goal::Ops(total) => {
                let share = self.ops as f64 / total.max(1) as f64;
                let rate = self.ops as f64 / self.seconds.max(1e-9);
                let left = total.saturating_sub(self.ops) as f64 / rate.max(1e-9);
                let eta = if self.ops == 0 { "--:--".to_owned() } else { clock(left) };
                (share, format!("{}/{}", count(self.ops), count(total)), format!("ETA {eta}"))
            }
            Goal::Seconds(total) => {
                let share = self.seconds / total.max(1) as f64;
                let left = clock((total as f64 - self.seconds).max(0.0));
                (share, format!("{} ops", count(self.ops)), format!("ETA {left}"))
            }
            Goal::Open => return format!("{}  {} ops  {}", self.name, count(self.ops), clock(self.seconds)),
        };
        let share = share.clamp(0.0, 1.0);
        let filled = (share * BAR as f64) as usize;
        let arrow = if filled < BAR { ">" } else { "" };
        let bar = format!("{}{arrow}", "=".repeat(filled));
        format!("{}  [{bar:<BAR$}] {:>3.0}%  {of}  {left}", self.name, (share * 100.0).floor())
    }

    fn speed(&self) -> String {
        let rates = &self.rates[self.rates.len().saturating_sub(HISTORY)..];
        let now = rates.last().map_or("-".to_owned(), |rate| count(*rate));
        let mean = rates.iter().sum::<u64>() as f64 / rates.len().max(1) as f64;
        let mut text =
            format!("ops/s  {}  now {now}  mean {}", sparkline(rates, self.unicode), count(mean as u64));
        if rates.len() > 1 && mean > 0.0 {
            let squares: f64 = rates.iter().map(|rate| (*rate as f64 - mean).powi(2)).sum();
            text += &format!("  cv {:.2}", (squares / (rates.len() - 1) as f64).sqrt() / mean);
        }
        if let Some(p99) = self.p99 {
            text += &format!("   p99 {p99}us");
        }
        text
    }

    fn gauge(&self) -> String {
        let usage = self.usage;
        let (running, most) = self.flushes;
        let l0: Vec<String> = self.l0.iter().map(u64::to_string).collect();
        let jobs = format!("flush {running}/{most}  L0 {}", l0.join(" "));
        if usage.quota == 0 {
            return format!("WBM    {} MiB, no quota   {jobs}", usage.usage >> 20);
        }
        let place = |share: f64| ((share * GAUGE as f64).round() as usize).min(GAUGE);
        let (filled, mark) =
            (place(usage.usage as f64 / usage.quota as f64), place(f64::from(self.start_percent) / 100.0));
        let column = |at: usize| match at {
            at if at == mark => '|',
            at if at < filled => '#',
            _ => '.',
        };
        let bar: String = (0..GAUGE).map(column).collect();
        let state = match usage.state.as_str() {
            "delayed" => format!("DELAYED step {} {}/s", usage.step, bytes(usage.rate)),
            "stopped" => "STOPPED".to_owned(),
            _ => "normal".to_owned(),
        };
        format!("WBM    [{bar}] {}/{}  {state}   {jobs}", usage.usage >> 20, bytes(usage.quota))
    }
}

/// A column a value, as high as the value is of the greatest.
fn sparkline(rates: &[u64], unicode: bool) -> String {
    const BLOCKS: [char; 8] =
        ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    const ASCII: [char; 8] = ['_', '.', ',', '-', '=', '+', '*', '#'];
    let levels = if unicode { BLOCKS } else { ASCII };
    let most = rates.iter().copied().max().unwrap_or(0).max(1);
    let level = |rate: &u64| levels[((u128::from(*rate) * 8 / (u128::from(most) + 1)) as usize).min(7)];
    rates.iter().map(level).collect()
}

/// `94.1M`, `251k`, `812`.
fn count(number: u64) -> String {
    match number as f64 {
        n if n >= 1e9 => format!("{:.1}G", n / 1e9),
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        _ => number.to_string(),
    }
}

fn bytes(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

fn clock(seconds: f64) -> String {
    let whole = seconds.min(359_999.0) as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// Whether the locale of these variables is UTF-8; the first that is set and not empty counts.
pub fn locale_is_unicode(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let mut set =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).filter(|value| !value.is_empty());
    set.next().is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delayed() -> Usage {
        let usage = Usage { usage: 775 << 20, quota: 1024 << 20, ..Usage::default() };
        Usage { state: "delayed".to_owned(), step: 18, rate: 420 << 20, ..usage }
    }

    fn view<'a>(usage: &'a Usage, rates: &'a [u64], l0: &'a [u64]) -> View<'a> {
        View {
            name: "fillrandom",
            ops: 94_100_000,
            seconds: 382.0,
            goal: Goal::Ops(200_000_000),
            rates,
            p99: Some(13),
            usage,
            start_percent: 70,
            flushes: (1, 1),
            l0,
            unicode: false,
        }
    }

    /// The example of the specification, in ASCII: progress, speed, gauge with the mark at 70 %.
    #[test]
    fn the_three_lines() {
        let usage = delayed();
        let rates = [100_000, 251_000, 300_000, 0, 251_000];
        assert_eq!(
            view(&usage, &rates, &[3, 2, 4]).lines(),
            [
                "fillrandom  [==============>               ]  47%  94.1M/200.0M  ETA 07:09",
                "ops/s  ,*#_*  now 251k  mean 180k  cv 0.70   p99 13us",
                "WBM    [#####################|#.......] 775/1024 MiB  DELAYED step 18 420 MiB/s   flush 1/1  L0 3 2 4",
            ]
        );
    }

    /// Before the first operation, at the end, by seconds, without a goal, without a quota, stopped.
    #[test]
    fn edges() {
        let usage = delayed();
        let none = View { ops: 0, seconds: 0.0, ..view(&usage, &[], &[]) };
        assert_eq!(none.lines()[0], format!("fillrandom  [>{}]   0%  0/200.0M  ETA --:--", " ".repeat(29)));
        assert_eq!(none.lines()[1], "ops/s    now -  mean 0   p99 13us");
        let done = View { ops: 200_000_000, ..view(&usage, &[], &[]) };
        assert!(done.lines()[0].contains(&format!("[{}] 100%", "=".repeat(30))), "{}", done.lines()[0]);
        let more = View { ops: 300_000_000, ..view(&usage, &[], &[]) };
        assert!(more.lines()[0].contains("100%  300.0M/200.0M  ETA 00:00"), "{}", more.lines()[0]);
        let timed = View { goal: Goal::Seconds(764), ..view(&usage, &[], &[]) };
        assert!(timed.lines()[0].ends_with("50%  94.1M ops  ETA 06:22"), "{}", timed.lines()[0]);
        let open = View { goal: Goal::Open, ..view(&usage, &[], &[]) };
        assert_eq!(open.lines()[0], "fillrandom  94.1M ops  06:22");
        let off = Usage { usage: 5 << 20, quota: 0, ..Usage::default() };
        assert_eq!(view(&off, &[], &[1]).lines()[2], "WBM    5 MiB, no quota   flush 1/1  L0 1");
        let full = Usage { usage: 2048 << 20, state: "stopped".to_owned(), ..delayed() };
        let gauge = format!("WBM    [{}|{}] 2048/1024 MiB  STOPPED   flush", "#".repeat(21), "#".repeat(8));
        assert!(view(&full, &[], &[]).lines()[2].starts_with(&gauge));
        assert_eq!(sparkline(&[0, u64::MAX], true), "\u{2581}\u{2588}");
    }

    /// The first variable that says something decides.
    #[test]
    fn the_locale_decides() {
        let of = |pairs: &'static [(&'static str, &'static str)]| {
            locale_is_unicode(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
        };
        assert!(of(&[("LANG", "en_US.UTF-8")]) && of(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!of(&[]) && !of(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
    }
}
