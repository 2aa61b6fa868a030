//! Room for what peers make us keep: requests under way, and replies that nobody has taken yet.
//!
//! A request is only decided once there is room for its answer. The room is given back when the
//! last byte of the reply has gone to the system, or when its stream has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::caller::Caller;
use crate::limits;
use crate::parts::{Part, Parts};

/// The room that all connections share.
#[derive(Debug)]
pub(crate) struct Rooms {
    all: Arc<Semaphore>,
    /// What each address may take of it.
    each: Arc<Parts>,
}

/// The room of one connection.
#[derive(Debug)]
pub(crate) struct Room {
    /// For which nobody else is asked.
    free: Semaphore,
    /// What long replies of this connection may take of the room that all share.
    own: Semaphore,
    /// What all connections of its address may take of it.
    part: Option<Part>,
    all: Arc<Semaphore>,
    /// How long a reply may take to be taken, and a request waits for room.
    time: Duration,
    /// Replies that are not taken yet, by the turn in which they were made: this one or the last.
    untaken: [AtomicUsize; 2],
    turn: AtomicUsize,
    /// Calls that may last: of health and reflection.
    talks: Arc<Semaphore>,
}

/// Room that a request and its reply have.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    /// For the request, whose reply may be short.
    request: Taken,
    /// Beyond that, for a long reply.
    reply: Taken,
    /// In which turn the reply was made.
    turn: Option<usize>,
}

/// Bytes that were taken of each kind of room.
#[derive(Debug, Default)]
struct Taken {
    free: usize,
    own: usize,
    each: usize,
    all: usize,
}

/// How long answers get, learned from those that were given.
#[derive(Debug)]
pub(crate) struct Sizes(AtomicUsize);

impl Default for Rooms {
    fn default() -> Rooms {
        let all = Arc::new(Semaphore::new(limits::ROOM_BYTES_MAX));
        Rooms { all, each: Parts::new(limits::ROOM_BYTES_ADDRESS_MAX) }
    }
}

impl Rooms {
    /// The room of a connection, whose replies are taken within `time`. Without an address it may
    /// take all room.
    pub(crate) fn connection(&self, of: Option<Caller>, time: Duration) -> Arc<Room> {
        Arc::new(Room {
            free: Semaphore::new(limits::ROOM_BYTES_FREE),
            own: Semaphore::new(limits::ROOM_BYTES_EACH_MAX),
            part: of.map(|of| self.each.of(of)),
            all: Arc::clone(&self.all),
            time,
            untaken: Default::default(),
            turn: AtomicUsize::new(0),
            talks: Arc::new(Semaphore::new(limits::RLS_TALKS_MAX)),
        })
    }
}

impl Room {
    /// A place without any room yet.
    pub(crate) fn nothing(self: &Arc<Self>) -> Place {
        let (request, reply) = Default::default();
        Place { room: Arc::clone(self), request, reply, turn: None }
    }

    /// Room for a request whose head has so many bytes; nothing, if there is none now.
    pub(crate) fn begin(self: &Arc<Self>, head_bytes: usize) -> Option<Place> {
        let bytes = limits::REQUEST_BYTES.saturating_add(head_bytes);
        let mut place = self.nothing();
        let has_room = self.take_free(bytes, &mut place.request)
            || self.take_shared(bytes, &mut place.request);
        has_room.then_some(place)
    }

    fn take_free(&self, bytes: usize, taken: &mut Taken) -> bool {
        let is_taken = take(&self.free, bytes);
        taken.free += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// Takes room of its address and of all, if there is enough now.
    fn take_shared(&self, bytes: usize, taken: &mut Taken) -> bool {
        let part = self.part();
        if part.is_some_and(|part| !take(part, bytes)) {
            return false;
        }
        if !take(&self.all, bytes) {
            part.inspect(|part| part.add_permits(bytes));
            return false;
        }
        taken.each += if part.is_some() { bytes } else { 0 };
        taken.all += bytes;
        true
    }

    fn part(&self) -> Option<&Semaphore> {
        self.part.as_ref().map(Part::left)
    }

    fn give_back(&self, taken: &Taken) {
        self.free.add_permits(taken.free);
        self.own.add_permits(taken.own);
        self.part().inspect(|part| part.add_permits(taken.each));
        self.all.add_permits(taken.all);
    }

    /// One more call that may last, if there are not too many.
    pub(crate) fn talk(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.talks).try_acquire_owned().ok()
    }

    /// Ends once a reply was not taken for too long: between one and two times as long as that may
    /// take.
    pub(crate) async fn late(&self) {
        loop {
            sleep(self.time).await;
            let last = 1 - self.turn.load(Ordering::Relaxed);
            if 0 < self.untaken[last].load(Ordering::Relaxed) {
                return;
            }
            self.turn.store(last, Ordering::Relaxed);
        }
    }
}

impl Place {
    /// Takes room for a long answer, if there is enough now.
    pub(crate) fn grow_at_once(&mut self, bytes: usize) -> bool {
        let bytes = bytes.min(limits::ROOM_BYTES_EACH_MAX);
        let room = Arc::clone(&self.room);
        // A client that asks one thing at a time needs no other: so it waits for nobody.
        if bytes == 0 || room.take_free(bytes, &mut self.reply) {
            return true;
        }
        if !take(&room.own, bytes) {
            return false;
        }
        if !room.take_shared(bytes, &mut self.reply) {
            room.own.add_permits(bytes);
            return false;
        }
        self.reply.own += bytes;
        true
    }

    /// Takes room as `grow_at_once` does, but waits while others have it, though not for long.
    /// Returns whether there is enough in the end.
    pub(crate) async fn grow(&mut self, bytes: usize) -> bool {
        if self.grow_at_once(bytes) {
            return true;
        }
        let bytes = bytes.min(limits::ROOM_BYTES_EACH_MAX);
        let (room, reply) = (Arc::clone(&self.room), &mut self.reply);
        // Those of a connection wait for each other first, then those of an address: a peer that
        // reads nothing is in nobody else's way.
        let taking = async {
            reply.own += wait_for(&room.own, bytes).await?;
            if let Some(part) = room.part() {
                reply.each += wait_for(part, bytes).await?;
            }
            reply.all += wait_for(&room.all, bytes).await?;
            Some(())
        };
        timeout(room.time, taking).await.is_ok_and(|taken| taken.is_some())
    }

    /// Whether it has room for a long answer.
    pub(crate) fn is_long(&self) -> bool {
        0 < self.reply.bytes()
    }

    /// The answer has so many bytes: what it does not need of the room for it is given back.
    pub(crate) fn fit(&mut self, bytes: usize) {
        let surplus = self.reply.split_off(self.reply.bytes().saturating_sub(bytes));
        self.room.give_back(&surplus);
        // The first that is longer than all before: those after it wait for more.
        let missing = bytes.saturating_sub(self.reply.bytes() + limits::ANSWER_BYTES_FREE);
        if 0 < missing && !self.room.take_free(missing, &mut self.reply) {
            self.room.take_shared(missing, &mut self.reply);
        }
    }

    /// Gives all of it back.
    pub(crate) fn clear(&mut self) {
        for taken in [&mut self.request, &mut self.reply] {
            self.room.give_back(&std::mem::take(taken));
        }
        if let Some(turn) = self.turn.take() {
            self.room.untaken[turn].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// From now on a reply waits to be taken.
    fn is_made(&mut self) {
        let turn = self.room.turn.load(Ordering::Relaxed);
        self.room.untaken[turn].fetch_add(1, Ordering::Relaxed);
        self.turn = Some(turn);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Taken {
    /// How many bytes there is room for.
    fn bytes(&self) -> usize {
        self.free + self.all
    }

    /// Takes so many bytes out of it, first those that others may wait for.
    fn split_off(&mut self, bytes: usize) -> Taken {
        let some = |from: &mut usize, bytes: usize| {
            let split = bytes.min(*from);
            *from -= split;
            split
        };
        let all = some(&mut self.all, bytes);
        let (own, each) = (some(&mut self.own, all), some(&mut self.each, all));
        Taken { free: some(&mut self.free, bytes - all), own, each, all }
    }
}

impl Sizes {
    /// The answer to each unit takes so many bytes, until longer ones are known.
    pub(crate) fn at_least(each: usize) -> Sizes {
        Sizes(AtomicUsize::new(each))
    }

    /// How much room to take before so many units are answered.
    pub(crate) fn of(&self, units: usize) -> usize {
        let each = self.0.load(Ordering::Relaxed);
        units.saturating_mul(each).saturating_sub(limits::ANSWER_BYTES_FREE)
    }

    /// So many units have got an answer of so many bytes.
    pub(crate) fn learn(&self, units: usize, bytes: usize) {
        let each = bytes.div_ceil(units.max(1));
        if limits::ANSWER_BYTES_FREE < bytes && self.0.load(Ordering::Relaxed) < each {
            self.0.fetch_max(each, Ordering::Relaxed);
        }
    }
}

/// The body of a reply, whose place is kept until all of it has been taken.
#[derive(Debug)]
pub(crate) struct Kept<B> {
    /// What has been read of it already.
    first: Option<Frame<Bytes>>,
    body: B,
    place: Option<Arc<Place>>,
    _talk: Option<OwnedSemaphorePermit>,
}

/// Bytes on their way out, and their place.
struct Untaken {
    bytes: Bytes,
    _place: Arc<Place>,
}

impl<B: Body<Data = Bytes> + Unpin> Kept<B> {
    /// Keeps its place until it is taken.
    pub(crate) fn new(body: B, mut place: Place) -> Kept<B> {
        place.is_made();
        Kept { first: None, body, place: Some(Arc::new(place)), _talk: None }
    }

    /// Has no place.
    pub(crate) fn without_place(body: B) -> Kept<B> {
        Kept { first: None, body, place: None, _talk: None }
    }

    /// May last.
    pub(crate) fn talk(body: B, talk: OwnedSemaphorePermit) -> Kept<B> {
        Kept { first: None, body, place: None, _talk: Some(talk) }
    }

    /// Keeps its place until it is taken, as `new` does, for a body of one message, whose length is
    /// known once it is read.
    pub(crate) async fn read(
        mut body: B,
        mut place: Place,
        learn: impl FnOnce(usize),
    ) -> Result<Kept<B>, B::Error> {
        let is_empty = body.is_end_stream();
        let first = std::future::poll_fn(|context| {
            if is_empty { Poll::Ready(None) } else { Pin::new(&mut body).poll_frame(context) }
        });
        let first = first.await.transpose()?;
        let bytes = first.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
        learn(bytes);
        place.fit(bytes);
        place.is_made();
        Ok(Kept { first, body, place: Some(Arc::new(place)), _talk: None })
    }

    fn keep(&self, bytes: Bytes) -> Bytes {
        match &self.place {
            Some(place) if !bytes.is_empty() => {
                Bytes::from_owner(Untaken { bytes, _place: Arc::clone(place) })
            }
            _ => bytes,
        }
    }
}

impl AsRef<[u8]> for Untaken {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Kept<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first.map_data(|bytes| self.keep(bytes)))));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map_ok(|frame| frame.map_data(|bytes| self.keep(bytes)))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.first.is_some() { SizeHint::new() } else { self.body.size_hint() }
    }
}

/// About what a head takes.
pub(crate) fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

fn take(from: &Semaphore, bytes: usize) -> bool {
    let permit = u32::try_from(bytes).ok().and_then(|bytes| from.try_acquire_many(bytes).ok());
    permit.map(SemaphorePermit::forget).is_some()
}

/// Waits for so many bytes, and takes them.
async fn wait_for(from: &Semaphore, bytes: usize) -> Option<usize> {
    let permit = from.acquire_many(u32::try_from(bytes).ok()?).await.ok()?;
    permit.forget();
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    const NOW: Duration = Duration::ZERO;
    const LONG: usize = limits::ROOM_BYTES_EACH_MAX;

    fn left(rooms: &Rooms) -> usize {
        rooms.all.available_permits()
    }

    fn at(host: u8) -> Caller {
        Caller::at([192, 0, 2, host].into())
    }

    #[test]
    fn requests_under_way_have_a_bound() {
        let rooms = Rooms::default();
        let room = rooms.connection(None, NOW);
        let places: Vec<Place> = std::iter::from_fn(|| room.begin(100)).collect();
        let each = limits::REQUEST_BYTES + 100;
        let most = limits::ROOM_BYTES_FREE / each + limits::ROOM_BYTES_MAX / each;
        assert_eq!(places.len(), most);
        // Another connection has its own part, for a request whose answer is not short, too.
        let other = rooms.connection(None, NOW);
        assert!(other.begin(100).is_some_and(|mut place| place.grow_at_once(16 << 10)));
        drop(places);
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX);
        for room in [room, other] {
            assert_eq!(room.free.available_permits(), limits::ROOM_BYTES_FREE);
        }
    }

    /// Connections of an address, each with as much room as it gets.
    fn greedy(rooms: &Rooms, of: Option<Caller>) -> Vec<Place> {
        std::iter::repeat_with(move || rooms.connection(of, NOW).nothing())
            .map_while(|mut place| place.grow_at_once(LONG).then_some(place))
            .collect()
    }

    #[tokio::test]
    async fn an_address_takes_a_part_of_all_room() {
        let rooms = Rooms::default();
        let taken = greedy(&rooms, Some(at(1)));
        assert_eq!(taken.len(), limits::ROOM_BYTES_ADDRESS_MAX / LONG);
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX - limits::ROOM_BYTES_ADDRESS_MAX);
        let late = rooms.connection(Some(at(1)), NOW);
        assert!(!late.nothing().grow(LONG).await, "neither by waiting");
        // Requests beyond those of each connection come from that part, too.
        let few: Vec<Place> = std::iter::from_fn(|| late.begin(0)).collect();
        assert_eq!(few.len(), limits::ROOM_BYTES_FREE / limits::REQUEST_BYTES);
        assert!(
            rooms.connection(Some(at(2)), NOW).nothing().grow_at_once(LONG),
            "others have theirs"
        );
        // A proxy, behind which there are many, has all that is left.
        let proxies = greedy(&rooms, None);
        assert_eq!(left(&rooms), 0);
        drop((late, few, proxies));
        assert_eq!(rooms.each.count(), 1, "an address without a connection is forgotten");
        drop(taken);
        assert_eq!((left(&rooms), rooms.each.count()), (limits::ROOM_BYTES_MAX, 0));
    }

    #[tokio::test]
    async fn long_answers_wait_for_each_other_and_then_for_all() {
        let rooms = Rooms::default();
        let room = rooms.connection(None, NOW);
        let (mut one, mut other) = (room.nothing(), room.nothing());
        assert!(one.grow(10 * LONG).await, "no answer is too long");
        assert!(!other.grow_at_once(LONG) && !other.grow(LONG).await);
        let mut others = Vec::new();
        while LONG <= left(&rooms) {
            let mut place = rooms.connection(None, NOW).nothing();
            assert!(place.grow(LONG).await);
            others.push(place);
        }
        assert_eq!(others.len() + 1, limits::ROOM_BYTES_MAX / LONG);
        let mut late = rooms.connection(None, NOW).nothing();
        assert!(!late.grow_at_once(LONG) && !late.grow(LONG).await);
        // What is not needed is for others.
        one.fit(1_000);
        assert!(other.grow(LONG - 1_000).await);
        drop(others);
        drop((one, other, late));
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX);
        assert_eq!(room.own.available_permits(), LONG);
    }

    #[test]
    fn what_is_longer_than_was_thought_takes_what_it_lacks_once() {
        let rooms = Rooms::default();
        let room = rooms.connection(Some(at(1)), NOW);
        let mut place = room.nothing();
        for bytes in [500, LONG] {
            for _ in 0..3 {
                place.fit(bytes + limits::ANSWER_BYTES_FREE);
            }
            assert_eq!(place.reply.bytes(), bytes);
        }
        // The second had no room in what was left of the connection's own.
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX - (LONG - 500));
        place.fit(100);
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX);
        assert_eq!(room.free.available_permits(), limits::ROOM_BYTES_FREE - 100);
        drop(place);
        assert_eq!(room.free.available_permits(), limits::ROOM_BYTES_FREE);
        let part = room.part().unwrap().available_permits();
        assert_eq!(part, limits::ROOM_BYTES_ADDRESS_MAX);
    }

    #[tokio::test]
    async fn a_reply_has_its_room_until_its_last_byte_is_taken() {
        let rooms = Rooms::default();
        let room = rooms.connection(Some(at(1)), Duration::from_millis(1));
        let mut place = room.begin(0).unwrap();
        assert!(place.grow(LONG).await);
        place.fit(5_000);
        let mut kept = Kept::new(Full::new(Bytes::from(vec![7; 5_000])), place);
        let bytes = kept.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(kept);
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX - 5_000);
        room.late().await;
        let rest = bytes.slice(4_999..);
        drop(bytes);
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX - 5_000);
        drop(rest);
        assert_eq!(left(&rooms), limits::ROOM_BYTES_MAX);
        assert!(timeout(Duration::from_millis(20), room.late()).await.is_err());
    }

    #[test]
    fn how_long_answers_get_is_learned() {
        let sizes = Sizes::at_least(500);
        assert_eq!(sizes.of(1), 0);
        assert_eq!(sizes.of(256), 256 * 500 - limits::ANSWER_BYTES_FREE);
        sizes.learn(10, 20_001);
        sizes.learn(1, limits::ANSWER_BYTES_FREE);
        assert_eq!(sizes.of(2), 2 * 2_001 - limits::ANSWER_BYTES_FREE);
    }
}
