//! A recording as a message diagram: a vertical line per process, an arrow per message.
//!
//! The output is SVG that follows the reader's theme and fits on a phone, optionally with buttons and a slider to step
//! through it; in print and without scripts all of it is shown.
//!
//! - A process that considers itself leader has a thick line, so that two leaders at once show as two thick lines.
//! - A long diagram is cut into strips that can be printed on several pages, each with the names of its lines.
//! - Labels are escaped, since scripts contain arbitrary text.

use std::fmt::Write as _;

use pole_sim::recording::{ProcessView, Recording, Step, StepKind};

use crate::report::escaped;

/// Draws a recording.
#[derive(Clone, Copy, Debug)]
pub struct Player<'a>(pub &'a Recording);

impl<'a> Player<'a> {
    /// The first `steps_max` shown steps, as SVG.
    #[must_use]
    pub fn diagram(&self, title: &str, steps_max: usize) -> String {
        let rows = self.rows(steps_max);
        self.strip(title, &rows, STYLE)
    }

    /// The diagram with its controls, for a page.
    #[must_use]
    pub fn controls(&self, title: &str, steps_max: usize) -> String {
        let rows = self.rows(steps_max);
        let last = rows.len();
        let strips: String = rows.chunks(STRIP).map(|rows| self.strip(title, rows, "")).collect();
        format!(
            "<div class=\"player\" tabindex=\"0\"><style>{STYLE}{CONTROLS}</style><div class=\"strips\">{strips}</div>\
             <p class=\"steps\"><button type=\"button\" aria-label=\"Back\">◀</button>\
             <input type=\"range\" min=\"1\" max=\"{last}\" value=\"{last}\" aria-label=\"Step\"/>\
             <button type=\"button\" aria-label=\"Forward\">▶</button></p>\
             <p class=\"told\" aria-live=\"polite\"></p><p class=\"told now\"></p><script>{SCRIPT}</script></div>"
        )
    }

    /// The steps that a diagram shows: sends are visible as arrows and starts as lines, and script output is shown
    /// elsewhere.
    fn rows(&self, steps_max: usize) -> Vec<Row<'a>> {
        let shown = |step: &&Step| match &step.kind {
            StepKind::Started(_) | StepKind::Sent { .. } | StepKind::Output(_) | StepKind::Full => false,
            StepKind::Noted { text, .. } => !text.starts_with("writes: ") && !text.starts_with("is asked "),
            StepKind::Received { .. }
            | StepKind::Lost { .. }
            | StepKind::Held { .. }
            | StepKind::Expired { .. }
            | StepKind::Called(_)
            | StepKind::Crashed(_)
            | StepKind::Suspects { .. }
            | StepKind::Trusts { .. }
            | StepKind::Cut(_)
            | StepKind::Healed
            | StepKind::Turn(_) => true,
        };
        let mut before: &[ProcessView] = &[];
        let row = |step| {
            let now = self.now(before, step);
            before = &step.views;
            Row { step, now }
        };
        self.0.steps.iter().filter(shown).take(steps_max).map(row).collect()
    }

    /// The views that differ from the row before, as text.
    fn now(&self, before: &[ProcessView], step: &Step) -> String {
        let changed = step.views.iter().enumerate().filter(|(who, view)| before.get(*who) != Some(*view));
        let text = changed.map(|(who, view)| format!("{}: {}", self.0.names[who], view.describe(&self.0.names)));
        text.collect::<Vec<_>>().join("; ")
    }

    fn strip(&self, title: &str, rows: &[Row<'_>], style: &str) -> String {
        let height = TOP + ROW * (rows.len() as f64 + 0.5);
        let mut body = String::new();
        for (process, name) in self.0.names.iter().enumerate() {
            let x = self.lane(process);
            let _ = write!(body, "<text class=\"who\" x=\"{x:.0}\" y=\"14\">{}</text>", escaped(name));
        }
        for (row, Row { step, now }) in rows.iter().enumerate() {
            let y = TOP + ROW * (row as f64 + 0.5);
            let text = format!("{:.3} ms {} {}", step.ms(), self.0.describe(step), step.views_summary(&self.0.names));
            let (text, now) = (escaped(&text), escaped(now));
            let _ = write!(body, "<g class=\"row\" data-told=\"{text}\" data-now=\"{now}\">");
            for (process, view) in step.views.iter().enumerate() {
                self.draw_lane(process, *view, y, &mut body);
            }
            self.draw(&step.kind, y, &mut body);
            body += "</g>";
        }
        let style = if style.is_empty() { String::new() } else { format!("<style>{style}</style>") };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"play\" role=\"img\" viewBox=\"0 0 {WIDTH} {height:.0}\">\
             <title>{}</title>{style}{body}</svg>",
            escaped(title)
        )
    }

    /// Draws the line of a process from this row to the next.
    fn draw_lane(&self, process: usize, view: ProcessView, y: f64, body: &mut String) {
        let class = match view {
            ProcessView { alive: false, .. } => return,
            ProcessView { leads: Some(_), .. } => "leads",
            ProcessView { leads: None, .. } => "life",
        };
        let _ = write!(body, "<path class=\"{class}\" d=\"M{:.0} {y:.0}v{ROW}\"/>", self.lane(process));
    }

    fn draw(&self, what: &StepKind, y: f64, body: &mut String) {
        match what {
            StepKind::Sent { .. } | StepKind::Started(_) | StepKind::Output(_) | StepKind::Full => {}
            StepKind::Received { from, to, label, .. } => self.draw_arrow((*from, *to), "way", label, y, body),
            StepKind::Lost { from, to, label } => self.draw_arrow((*from, *to), "lost", &format!("{label} ✕"), y, body),
            StepKind::Held { from, to, label } => {
                self.draw_arrow((*from, *to), "lost", &format!("{label} waits"), y, body)
            }
            StepKind::Expired { who, timer } => self.draw_dot(*who, timer, y, body),
            StepKind::Called(who) => self.draw_dot(*who, "calls", y, body),
            StepKind::Crashed(who) => self.draw_dot(*who, "dies", y, body),
            StepKind::Noted { who, text } => self.draw_dot(*who, text, y, body),
            StepKind::Suspects { who, whom } => {
                self.draw_dot(*who, &format!("suspects {}", self.0.names[*whom]), y, body)
            }
            StepKind::Trusts { who, whom } => self.draw_dot(*who, &format!("trusts {}", self.0.names[*whom]), y, body),
            StepKind::Turn(_) => {
                let _ = write!(body, "<path class=\"lost\" d=\"M0 {:.0}H{WIDTH}\"/>", y + 4.0);
                label("who", WIDTH / 2.0, y - 3.0, &what.describe(&self.0.names), body);
            }
            StepKind::Cut(_) | StepKind::Healed => label("", WIDTH / 2.0, y - 5.0, &what.describe(&self.0.names), body),
        }
    }

    fn draw_arrow(&self, (from, to): (usize, usize), class: &str, text: &str, y: f64, body: &mut String) {
        let (start, end) = (self.lane(from), self.lane(to));
        let back = if end > start { -6.0 } else { 6.0 };
        let _ =
            write!(body, "<path class=\"{class}\" d=\"M{start:.0} {y:.0}H{end:.0}m{back} -4l{} 4l{back} 4\"/>", -back);
        label("", (start + end) / 2.0, y - 5.0, text, body);
    }

    fn draw_dot(&self, who: usize, text: &str, y: f64, body: &mut String) {
        let x = self.lane(who);
        let _ = write!(body, "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"4\"/>");
        label("", x, y - 7.0, text, body);
    }

    fn lane(&self, process: usize) -> f64 {
        MARGIN + (WIDTH - 2.0 * MARGIN) * process as f64 / self.0.names.len().saturating_sub(1).max(1) as f64
    }
}

/// A step that is shown, and the views that changed since the row before.
struct Row<'a> {
    step: &'a Step,
    now: String,
}

/// Draws text centred at a place, shifted to stay inside the diagram, and truncated if it is wider than that.
fn label(class: &str, x: f64, y: f64, text: &str, body: &mut String) {
    let most = (WIDTH / LETTER) as usize;
    let text = match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    };
    let half = (text.chars().count() as f64 * LETTER / 2.0).min(WIDTH / 2.0);
    let middle = x.clamp(half, WIDTH - half);
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = write!(body, "<text{class} x=\"{middle:.0}\" y=\"{y:.0}\">{}</text>", escaped(&text));
}

const WIDTH: f64 = 340.0;
const MARGIN: f64 = 24.0;
/// An upper estimate of the width of a letter, since fonts differ.
const LETTER: f64 = 7.2;
const TOP: f64 = 30.0;
const ROW: f64 = 28.0;
/// The number of rows of a strip: less than a printed page.
const STRIP: usize = 24;

/// Uses the reader's text colour. Text has an outline in the background colour, so that lines do not cross it.
const STYLE: &str = "\
.play text{font:13px system-ui,sans-serif;text-anchor:middle;fill:currentColor;paint-order:stroke;stroke:var(--paper,Canvas);\
stroke-width:4px;stroke-linejoin:round}.play .who{font-weight:600}.play circle{fill:currentColor}\
.play path{fill:none;stroke:currentColor}.play .life{stroke-width:1;opacity:.5}.play .leads{stroke-width:6;opacity:.8}\
.play .way{stroke-width:1.4}.play .lost{stroke-width:1.2;stroke-dasharray:4 4}";

/// A long diagram scrolls in its own box, with the controls always visible; in print two strips are side by side.
const CONTROLS: &str = "\
.play .off{opacity:.1}.strips{max-height:75vh;overflow-y:auto}.player:focus-visible{outline:2px solid var(--link)}\
.steps{display:flex;gap:.5rem;max-width:36rem}.steps input{flex:1}.steps button{font-size:1rem;min-width:3rem;min-height:2.4rem}\
.told{min-height:3em;font-size:.9rem;margin:.3rem 0}\
@media print{.play .off{opacity:1}.steps,.told{display:none}.strips{max-height:none;overflow:visible}figure:has(.player){break-inside:auto}\
figure .player svg{display:inline-block;width:48%;max-height:none;vertical-align:top;break-inside:avoid}}";

/// Each player finds its own elements; rows after the current step fade, and the step is described as text. The keys
/// are those of the terminal. It contains no `<`, so that the page can be parsed as XML.
const SCRIPT: &str = "\
(p=>{const rows=[...p.querySelectorAll('.row')],s=p.querySelector('input'),t=p.querySelector('.told'),w=p.querySelector('.now'),b=p.querySelectorAll('button'),\
box=p.querySelector('.strips');if(!rows.length)return;\
const show=()=>{const n=+s.value;rows.forEach((r,i)=>r.classList.toggle('off',i>=n));t.textContent=n+' of '+rows.length+': '+rows[n-1].dataset.told;\
w.textContent=rows[n-1].dataset.now};\
const go=n=>{s.value=n;show();const r=rows[s.value-1].getBoundingClientRect(),v=box.getBoundingClientRect();\
if(v.top>r.top||r.bottom>v.bottom)box.scrollTop+=r.top-v.top-v.height/2};\
const keys={ArrowRight:1,n:1,' ':1,ArrowLeft:-1,p:-1,Home:-1e9,End:1e9};\
p.onkeydown=e=>{const by=keys[e.key];if(!by||e.key==' '&&e.target.tagName=='BUTTON')return;e.preventDefault();go(+s.value+by)};\
s.oninput=()=>go(+s.value);b[0].onclick=()=>go(+s.value-1);b[1].onclick=()=>go(+s.value+1);show()})\
(document.currentScript.parentElement)";

#[cfg(test)]
mod tests {
    use super::Player;
    use crate::classical::{Case, Kind, Occurrence};

    #[test]
    fn two_leaders_at_once_are_two_thick_lines_in_one_row() {
        let mut case = Case::counting(3);
        (case.leader, case.record, case.ends_settled) = (Some(2), true, false);
        case.occurrences.push((0, Occurrence::Suspects { who: 1, whom: 2 }));
        let recording = Kind::Bully.run(&case).recording.unwrap();
        let svg = Player(&recording).diagram("bully", 1);
        assert_eq!(svg.matches("class=\"leads\"").count(), 2, "{svg}");
        assert!(svg.contains("suspects 2"), "{svg}");
    }

    #[test]
    fn a_player_has_a_row_for_every_step_that_its_slider_reaches() {
        let mut case = Case::leader_dead(4).suspected_by([0]);
        case.record = true;
        let recording = Kind::Bully.run(&case).recording.unwrap();
        let html = Player(&recording).controls("bully", 9);
        assert_eq!(html.matches("class=\"row\"").count(), 9);
        assert!(!super::SCRIPT.contains('<'));
        assert!(html.contains("max=\"9\"") && html.contains("data-told=\"0.000 ms 3 dies 0:3 1:3 2:3 3:x\""), "{html}");
    }
}
