(** * A ring of any depth and any number of steps

    The worked example of docs/kernel.md: a producer waits for [empty], announces 256 bytes, and issues a copy
    that fills a slot; a consumer waits for [full], reads the slot, and arrives at [empty]. The obligations
    of Mbarrier.v hold for every depth [S >= 1] and every number [N] of steps. So no execution hangs, and
    reads and copies of one slot are ordered. The file also shows that the hypotheses can be met. *)

From Coq Require Import ZArith List Lia Bool Relations Arith.
From Coq Require Fin.
From Coq Require FinFun.
Require Import Mbarrier.
Import ListNotations.

Section Ring.
  Variables S N : nat.
  Hypothesis S_positive : (1 <= S)%nat.

  (** Operations of one step, in an order in which one slot's step can be performed. *)
  Inductive kind := AwaitEmpty | Announce | Issue | Copied | AwaitFull | Read | Release.

  Definition place (k : kind) : nat :=
    match k with
    | AwaitEmpty => 0 | Announce => 1 | Issue => 2 | Copied => 3 | AwaitFull => 4 | Read => 5 | Release => 6
    end.

  (** The engine is no thread: a copy is tied to its issue alone. *)
  Definition thread (k : kind) : option bool :=
    match k with
    | AwaitEmpty | Announce | Issue => Some false
    | AwaitFull | Read | Release => Some true
    | Copied => None
    end.

  Definition E : Type := kind * Fin.t N.
  Definition num (e : E) : nat := proj1_sig (Fin.to_nat (snd e)).

  Definition slot (e : E) : nat := num e mod S.
  Definition lap (e : E) : nat := num e / S.
  Definition full_of (s : nat) : nat := 2 * s.
  Definition empty_of (s : nat) : nat := 2 * s + 1.

  Definition what (e : E) : op :=
    match fst e with
    | AwaitEmpty => Wait (empty_of (slot e)) ((Z.of_nat (lap e) + 1) mod 2)
    | Announce => Contribute (full_of (slot e)) 1 256
    | Copied => Contribute (full_of (slot e)) 0 (-256)
    | AwaitFull => Wait (full_of (slot e)) (Z.of_nat (lap e) mod 2)
    | Release => Contribute (empty_of (slot e)) 1 0
    | Issue | Read => Other
    end.

  Definition req (f e : E) : Prop :=
    (fst f = Issue /\ fst e = Copied /\ num f = num e) \/
    (thread (fst f) <> None /\ thread (fst f) = thread (fst e) /\
     (num f < num e \/ (num f = num e /\ place (fst f) < place (fst e)))%nat).

  (** Steps of slot [s] that there are. *)
  Definition laps (b : nat) : Z := (Z.of_nat ((N + (S - 1) - b / 2) / S) * (if (b / 2 <? S)%nat then 1 else 0))%Z.

  Definition ph (e : E) : Z :=
    match fst e with AwaitEmpty => Z.of_nat (lap e) - 1 | _ => Z.of_nat (lap e) end.
  Definition rank (e : E) : nat := 7 * num e + place (fst e).

  (** ** The finite set of events *)

  Definition E_eq : forall e f : E, {e = f} + {e <> f}.
  Proof.
    intros [k n] [l m]. assert (K : {k = l} + {k <> l}) by decide equality.
    destruct K as [->|K]; [|right; congruence].
    destruct (Fin.eq_dec n m) as [->|M]; [left; reflexivity|right; congruence].
  Defined.

  Fixpoint fins (n : nat) : list (Fin.t n) :=
    match n with O => [] | Datatypes.S m => Fin.F1 :: map Fin.FS (fins m) end.

  Lemma fins_all : forall n (i : Fin.t n), In i (fins n).
  Proof. intros n i. induction i; simpl; auto. right. apply in_map. auto. Qed.

  Lemma fins_once : forall n, NoDup (fins n).
  Proof.
    induction n; simpl; constructor.
    - intros H. apply in_map_iff in H. destruct H as (x & H & _). discriminate.
    - apply FinFun.Injective_map_NoDup; auto. intros i j. apply Fin.FS_inj.
  Qed.

  Definition kinds := [AwaitEmpty; Announce; Issue; Copied; AwaitFull; Read; Release].
  Definition events : list E := list_prod kinds (fins N).

  Lemma events_all : forall e, In e events.
  Proof. intros [k i]. apply in_prod; [destruct k; simpl; tauto|apply fins_all]. Qed.

  Lemma NoDup_both : forall (A : Type) (l m : list A),
    NoDup l -> NoDup m -> (forall x, In x l -> ~ In x m) -> NoDup (l ++ m).
  Proof.
    intros A l m L M D. induction L as [|a l Na L IH]; simpl; auto. constructor.
    - intros H. apply in_app_or in H. destruct H as [H|H]; [contradiction|]. apply (D a); simpl; auto.
    - apply IH. intros x H. apply D. simpl. auto.
  Qed.

  Lemma NoDup_prod : forall (A B : Type) (l : list A) (m : list B), NoDup l -> NoDup m -> NoDup (list_prod l m).
  Proof.
    intros A B l m L M. induction L as [|a l Na L IH]; simpl; [constructor|].
    apply NoDup_both; auto.
    - apply FinFun.Injective_map_NoDup; auto. intros x y H. congruence.
    - intros [x y] H1 H2. apply in_map_iff in H1. destruct H1 as (z & H1 & _). inversion H1; subst.
      apply in_prod_iff in H2. tauto.
  Qed.

  Lemma events_once : NoDup events.
  Proof.
    apply NoDup_prod; [|apply fins_once].
    repeat constructor; simpl; intuition discriminate.
  Qed.

  Lemma num_lt : forall e, (num e < N)%nat.
  Proof. intros e. unfold num. destruct (Fin.to_nat (snd e)); simpl; auto. Qed.

  Definition at_ (k : kind) (n : nat) (H : (n < N)%nat) : E := (k, Fin.of_nat_lt H).

  Lemma num_at : forall k n H, num (at_ k n H) = n.
  Proof. intros. unfold num, at_. simpl. rewrite Fin.to_nat_of_nat. reflexivity. Qed.

  Lemma same_event : forall e f : E, fst e = fst f -> num e = num f -> e = f.
  Proof.
    intros [k i] [l j] H1 H2. unfold num in H2. simpl in *. subst. f_equal. apply Fin.to_nat_inj. auto.
  Qed.

  (** ** Arithmetic of slots *)

  Lemma split_num : forall e, num e = (S * lap e + slot e)%nat.
  Proof. intros. unfold lap, slot. apply Nat.div_mod. lia. Qed.

  Lemma slot_lt : forall e, (slot e < S)%nat.
  Proof. intros. apply Nat.mod_upper_bound. lia. Qed.

  Lemma at_slot : forall k s l H, (s < S)%nat -> slot (at_ k (S * l + s) H) = s /\ lap (at_ k (S * l + s) H) = l.
  Proof.
    intros k s l H L. unfold slot, lap. rewrite num_at. split.
    - rewrite Nat.add_comm, Nat.mul_comm, Nat.mod_add by lia. apply Nat.mod_small. auto.
    - rewrite Nat.add_comm, Nat.mul_comm, Nat.div_add by lia. rewrite Nat.div_small by auto. lia.
  Qed.

  Lemma half_full : forall s, full_of s / 2 = s.
  Proof. intros. unfold full_of. rewrite Nat.mul_comm. apply Nat.div_mul. lia. Qed.
  Lemma half_empty : forall s, empty_of s / 2 = s.
  Proof. intros. unfold empty_of. rewrite Nat.add_comm, Nat.mul_comm, Nat.div_add by lia. reflexivity. Qed.

  (** Step [l] of slot [s] exists exactly when it is below the number of laps. *)
  Lemma laps_spec : forall b s l, b / 2 = s -> (s < S)%nat -> ((S * l + s < N)%nat <-> (Z.of_nat l < laps b)%Z).
  Proof.
    intros b s l Hb Hs. unfold laps. rewrite Hb.
    assert (Ht : (s <? S)%nat = true) by (apply Nat.ltb_lt; auto). rewrite Ht.
    pose proof (Nat.div_mod (N + (S - 1) - s) S ltac:(lia)) as D.
    pose proof (Nat.mod_upper_bound (N + (S - 1) - s) S ltac:(lia)) as M.
    set (q := ((N + (S - 1) - s) / S)%nat) in *. set (r := ((N + (S - 1) - s) mod S)%nat) in *.
    rewrite Z.mul_1_r, <- Nat2Z.inj_lt. split; intros H.
    - destruct (lt_dec l q) as [|Hq]; auto. exfalso. assert (S * q <= S * l)%nat by (apply Nat.mul_le_mono_l; lia). lia.
    - assert (S * (l + 1) <= S * q)%nat by (apply Nat.mul_le_mono_l; lia). lia.
  Qed.

  Lemma laps_unused : forall b, (S <= b / 2)%nat -> laps b = 0%Z.
  Proof.
    intros b H. unfold laps. assert (Ht : (b / 2 <? S)%nat = false) by (apply Nat.ltb_ge; auto). rewrite Ht. lia.
  Qed.

  Lemma laps_nonneg : forall b, (0 <= laps b)%Z.
  Proof. intros b. unfold laps. destruct (b / 2 <? S)%nat; lia. Qed.

  (** ** Paths *)

  Let edge := edge E what req ph.
  Let path := path E what req ph.

  Lemma program : forall e f, thread (fst e) <> None -> thread (fst e) = thread (fst f) ->
    (num e < num f \/ (num e = num f /\ place (fst e) < place (fst f)))%nat -> edge e f.
  Proof. intros e f H1 H2 H3. left. right. auto. Qed.

  (** A contribution to [full] reaches the wait of its step, a release the wait of the next lap. *)
  Lemma fills : forall e f, fst e = Announce \/ fst e = Copied -> fst f = AwaitFull -> num e = num f -> edge e f.
  Proof.
    intros e f He Hf Hn. right.
    assert (Hs : slot e = slot f) by (unfold slot; congruence).
    assert (Hl : lap e = lap f) by (unfold lap; congruence).
    exists (full_of (slot f)). unfold what, ph. rewrite Hf.
    destruct He as [He|He]; rewrite He, Hs, Hl; do 3 eexists; repeat split; reflexivity.
  Qed.

  Lemma frees : forall e f, fst e = Release -> fst f = AwaitEmpty -> num f = (num e + S)%nat -> edge e f.
  Proof.
    intros e f He Hf Hn. right.
    assert (Hs : slot e = slot f).
    { unfold slot. rewrite Hn. replace (num e + S)%nat with (num e + 1 * S)%nat by lia.
      rewrite Nat.mod_add by lia. reflexivity. }
    assert (Hl : lap f = (lap e + 1)%nat).
    { unfold lap. rewrite Hn. replace (num e + S)%nat with (num e + 1 * S)%nat by lia. apply Nat.div_add. lia. }
    exists (empty_of (slot f)). unfold what, ph. rewrite He, Hf, Hs, Hl. do 3 eexists. repeat split; lia.
  Qed.

  Lemma issues : forall e f, fst e = Issue -> fst f = Copied -> num e = num f -> edge e f.
  Proof. intros e f He Hf Hn. left. left. auto. Qed.

  Ltac by_program :=
    apply program;
    repeat match goal with H : fst ?x = _ |- context [fst ?x] => rewrite H end;
    simpl; [discriminate|reflexivity|first [left; lia|right; lia]].

  Lemma some : forall k n, (n < N)%nat -> exists e, fst e = k /\ num e = n.
  Proof. intros k n H. exists (at_ k n H). split; [reflexivity|apply num_at]. Qed.

  (** What fills a slot in one lap comes before the producer's wait of the next. *)
  Lemma lap_over : forall e f, fst e = Announce \/ fst e = Copied \/ fst e = AwaitFull \/ fst e = Read \/ fst e = Release ->
    fst f = AwaitEmpty -> num f = (num e + S)%nat -> path e f.
  Proof.
    intros e f He Hf Hn. pose proof (num_lt f).
    destruct (some AwaitFull (num e)) as (w & Kw & Nw); [lia|].
    destruct (some Release (num e)) as (r & Kr & Nr); [lia|].
    assert (wr : edge w r) by (by_program).
    assert (rf : edge r f) by (apply frees; auto; lia).
    assert (wf : path w f) by (eapply t_trans; apply t_step; eauto).
    destruct He as [He|[He|[He|[He|He]]]].
    - eapply t_trans; [apply t_step; apply (fills e w); auto|auto].
    - eapply t_trans; [apply t_step; apply (fills e w); auto|auto].
    - replace e with w; [auto|]. apply same_event; congruence.
    - eapply t_trans; [apply t_step|apply t_step; exact rf].
      by_program.
    - replace e with r; [apply t_step; auto|]. apply same_event; congruence.
  Qed.

  Lemma next_lap : forall e f, slot e = slot f -> lap f = (lap e + 1)%nat -> num f = (num e + S)%nat.
  Proof.
    intros e f Hs Hl. rewrite (split_num f), (split_num e), Hl, Hs. lia.
  Qed.

  (** From the producer's wait to what it does in that step. *)
  Lemma fills_after : forall w e, fst w = AwaitEmpty -> fst e = Announce \/ fst e = Copied -> num w = num e -> path w e.
  Proof.
    intros w e Kw Ke Hn. pose proof (num_lt e).
    destruct Ke as [Ke|Ke].
    - apply t_step. by_program.
    - destruct (some Issue (num e)) as (i & Ki & Ni); [lia|].
      eapply t_trans; [apply t_step; apply (program w i)|apply t_step; apply issues; auto].
      + rewrite Kw. discriminate.
      + rewrite Kw, Ki. reflexivity.
      + rewrite Kw, Ki. simpl. right. lia.
  Qed.

  (** ** The obligations *)

  Lemma kind_of_full : forall e s a x, what e = Contribute (full_of s) a x ->
    (fst e = Announce \/ fst e = Copied) /\ slot e = s.
  Proof.
    intros e s a x H. unfold what in H. destruct (fst e) eqn:K; inversion H; unfold full_of, empty_of in *; split; auto; lia.
  Qed.

  Lemma kind_of_empty : forall e s a x, what e = Contribute (empty_of s) a x -> fst e = Release /\ slot e = s.
  Proof.
    intros e s a x H. unfold what in H. destruct (fst e) eqn:K; inversion H; unfold full_of, empty_of in *; split; auto; lia.
  Qed.

  Lemma contributes : forall e b a x, what e = Contribute b a x ->
    b / 2 = slot e /\ ph e = Z.of_nat (lap e) /\
    ((b = full_of (slot e) /\ (fst e = Announce /\ a = 1%Z /\ x = 256%Z \/ fst e = Copied /\ a = 0%Z /\ x = (-256)%Z)) \/
     (b = empty_of (slot e) /\ fst e = Release /\ a = 1%Z /\ x = 0%Z)).
  Proof.
    intros e b a x H. unfold what in H. unfold ph.
    destruct (fst e) eqn:K; inversion H; subst; rewrite ?half_full, ?half_empty; repeat split; auto 10.
  Qed.

  Lemma even_odd : forall s t, full_of s <> empty_of t.
  Proof. intros. unfold full_of, empty_of. lia. Qed.

  Lemma ranks : forall e f, edge e f -> (rank e < rank f)%nat.
  Proof.
    intros e f [[(Ke & Kf & Hn)|(_ & Ht & [Hn|[Hn Hp]])]|(b & a & x & p & We & Wf & Hp)]; unfold rank.
    - rewrite Ke, Kf, Hn. simpl. lia.
    - assert (place (fst e) < 7)%nat by (destruct (fst e); simpl; lia). lia.
    - lia.
    - destruct (contributes e b a x We) as (_ & Pe & C). unfold what in Wf. unfold ph in Hp at 2.
      destruct C as [[Hb C]|[Hb [Ke _]]].
      + destruct (fst f) eqn:Kf; inversion Wf as [[H1 H2]]; subst b.
        * exfalso. symmetry in H1. eapply even_odd; eauto.
        * assert (slot e = slot f) by (unfold full_of in *; lia).
          assert (num e = num f) by (rewrite (split_num e), (split_num f); assert (lap e = lap f) by lia; congruence).
          destruct C as [[Ke _]|[Ke _]]; rewrite Ke; simpl; lia.
      + destruct (fst f) eqn:Kf; inversion Wf as [[H1 H2]]; subst b.
        * assert (slot e = slot f) by (unfold empty_of in *; lia).
          assert (num f = num e + S)%nat by (apply next_lap; auto; lia).
          rewrite Ke. simpl. lia.
        * exfalso. eapply even_odd; eauto.
  Qed.

  Lemma shapes : forall e b a x, what e = Contribute b a x -> (0 <= a /\ (0 < a \/ x <> 0))%Z.
  Proof. intros e b a x H. destruct (contributes e b a x H) as (_ & _ & C). lia. Qed.

  Lemma lap_below : forall e b, b / 2 = slot e -> (Z.of_nat (lap e) < laps b)%Z.
  Proof.
    intros e b H. apply (laps_spec b (slot e)); auto; [apply slot_lt|].
    rewrite <- split_num. apply num_lt.
  Qed.

  Lemma within : forall e b a x, what e = Contribute b a x -> (0 <= ph e <= laps b)%Z.
  Proof.
    intros e b a x H. destruct (contributes e b a x H) as (Hb & Hp & _).
    pose proof (lap_below e b Hb). lia.
  Qed.

  Lemma means : forall w b p, what w = Wait b p -> (-1 <= ph w < laps b /\ p = ph w mod 2)%Z.
  Proof.
    intros w b p H. unfold what in H. unfold ph.
    destruct (fst w) eqn:K; inversion H; subst.
    - pose proof (lap_below w (empty_of (slot w)) (half_empty _)). split; [lia|].
      replace (Z.of_nat (lap w) + 1)%Z with (Z.of_nat (lap w) - 1 + 1 * 2)%Z by lia. apply Z.mod_add. lia.
    - pose proof (lap_below w (full_of (slot w)) (half_full _)). split; [lia|reflexivity].
  Qed.

  Lemma O1 : forall e f b a x c y, what e = Contribute b a x -> what f = Contribute b c y ->
    ph f = (ph e + 1)%Z -> path e f.
  Proof.
    intros e f b a x c y We Wf Hp.
    destruct (contributes e b a x We) as (Be & Pe & Ce). destruct (contributes f b c y Wf) as (Bf & Pf & Cf).
    assert (Hn : num f = (num e + S)%nat) by (apply next_lap; [congruence|lia]).
    pose proof (num_lt f).
    destruct Ce as [[B1 Ce]|[B1 [Ke _]]]; destruct Cf as [[B2 Cf]|[B2 [Kf _]]].
    - destruct (some AwaitEmpty (num f)) as (w & Kw & Nw); [lia|].
      apply t_trans with w.
      + apply lap_over; [tauto|auto|lia].
      + apply fills_after; [auto|tauto|lia].
    - exfalso. subst b. eapply even_odd; eauto.
    - exfalso. subst b. eapply even_odd; eauto.
    - apply t_step. by_program.
  Qed.

  Lemma O2 : forall e w b a x p, what e = Contribute b a x -> what w = Wait b p -> ph w = (ph e + 1)%Z ->
    exists r, req r w /\ path_or_same E what req ph e r.
  Proof.
    intros e w b a x p We Ww Hp. destruct (contributes e b a x We) as (Be & Pe & Ce).
    unfold what in Ww. unfold ph in Hp at 1. pose proof (num_lt w).
    destruct (fst w) eqn:Kw; inversion Ww as [[H1 H2]]; subst b.
    - (* the producer waits two laps after the release *)
      destruct Ce as [[B1 _]|[B1 [Ke _]]]; [exfalso; symmetry in B1; eapply even_odd; eauto|].
      assert (Hs : slot e = slot w) by (unfold empty_of in B1; lia).
      assert (Hn : num w = (num e + S + S)%nat).
      { rewrite (split_num w), (split_num e), Hs. assert (L : lap w = (lap e + 2)%nat) by lia. rewrite L. lia. }
      destruct (some AwaitEmpty (num e + S)) as (r & Kr & Nr); [lia|].
      exists r. split.
      + right. rewrite Kr, Kw. split; [discriminate|split; [reflexivity|left; lia]].
      + apply rt_step. apply frees; auto.
    - destruct Ce as [[B1 Ce]|[B1 _]]; [|exfalso; eapply even_odd; eauto].
      assert (Hs : slot e = slot w) by (unfold full_of in B1; lia).
      assert (Hn : num w = (num e + S)%nat) by (apply next_lap; auto; lia).
      destruct (some AwaitFull (num e)) as (r & Kr & Nr); [lia|].
      exists r. split.
      + right. rewrite Kr, Kw. split; [discriminate|split; [reflexivity|left; lia]].
      + apply rt_step. apply fills; auto. tauto.
  Qed.

  Lemma O3 : forall w b p, what w = Wait b p -> (ph w + 1 < laps b)%Z ->
    exists e a x, what e = Contribute b a x /\ ph e = (ph w + 1)%Z /\ path w e.
  Proof.
    intros w b p Ww Hl. unfold what in Ww. unfold ph in Hl. pose proof (num_lt w).
    destruct (fst w) eqn:Kw; inversion Ww as [[H1 H2]]; subst b.
    - destruct (some Release (num w)) as (r & Kr & Nr); [lia|].
      destruct (some Announce (num w)) as (n & Kn & Nn); [lia|].
      destruct (some AwaitFull (num w)) as (f & Kf & Nf); [lia|].
      assert (Hs : slot r = slot w) by (unfold slot; congruence).
      assert (Hp : lap r = lap w) by (unfold lap; congruence).
      exists r. unfold what, ph. rewrite Kr, Kw, Hs, Hp. do 2 eexists. split; [reflexivity|]. split; [lia|].
      apply t_trans with n; [|apply t_trans with f].
      + apply fills_after; auto.
      + apply t_step. apply fills; auto. congruence.
      + apply t_step. by_program.
    - assert (L : (S * (lap w + 1) + slot w < N)%nat).
      { apply (laps_spec (full_of (slot w)) (slot w)); [apply half_full|apply slot_lt|lia]. }
      destruct (some Announce (S * (lap w + 1) + slot w)) as (e & Ke & Ne); [auto|].
      assert (Hn : num e = (num w + S)%nat) by (rewrite Ne, (split_num w); lia).
      assert (Hs : slot e = slot w).
      { unfold slot. rewrite Hn. replace (num w + S)%nat with (num w + 1 * S)%nat by lia.
        rewrite Nat.mod_add by lia. reflexivity. }
      assert (Hp : lap e = (lap w + 1)%nat).
      { unfold lap. rewrite Hn. replace (num w + S)%nat with (num w + 1 * S)%nat by lia. apply Nat.div_add. lia. }
      destruct (some AwaitEmpty (num e)) as (r & Kr & Nr); [lia|].
      exists e. unfold what, ph. rewrite Ke, Kw, Hs, Hp. do 2 eexists. split; [reflexivity|]. split; [lia|].
      apply t_trans with r.
      + apply lap_over; [tauto|auto|lia].
      + apply fills_after; auto.
  Qed.

  Lemma O4 : forall e b a x, what e = Contribute b a x -> (0 < x)%Z -> (ph e < laps b)%Z ->
    (0 < a)%Z \/ exists f c y, what f = Contribute b c y /\ ph f = ph e /\ (0 < c)%Z /\ path e f.
  Proof. intros e b a x H X _. destruct (contributes e b a x H) as (_ & _ & C). left. lia. Qed.

  (** *** Accounting *)

  Let on := on E what ph.

  Lemma on_step : forall b k e, on b k e = true <->
    (exists a x, what e = Contribute b a x) /\ b / 2 = slot e /\ k = Z.of_nat (lap e).
  Proof.
    intros b k e. unfold on. rewrite (on_true E what ph). split.
    - intros (a & x & W & P). destruct (contributes e b a x W) as (B & P' & _). repeat split; eauto. congruence.
    - intros ((a & x & W) & B & K). exists a, x. split; auto. destruct (contributes e b a x W) as (_ & P & _). congruence.
  Qed.

  Lemma total_at : forall P g l e, NoDup l -> In e l -> P e = true -> (forall f, P f = true -> f = e) ->
    total E P g l = g e.
  Proof.
    intros P g l e ND I Pe U.
    rewrite (total_add E (fun _ => false) P g l e ND I eq_refl Pe).
    - rewrite total_none by reflexivity. reflexivity.
    - intros f Nf. destruct (P f) eqn:H; [exfalso; auto|reflexivity].
  Qed.

  Lemma total_pair : forall P g l e f, NoDup l -> In e l -> In f l -> e <> f -> P e = true -> P f = true ->
    (forall h, P h = true -> h = e \/ h = f) -> total E P g l = (g e + g f)%Z.
  Proof.
    intros P g l e f ND Ie If Nef Pe Pf U.
    rewrite (total_add E (fun h => if E_eq h e then true else false) P g l f ND If).
    - rewrite (total_at _ g l e ND Ie); [reflexivity| |].
      + destruct (E_eq e e); congruence.
      + intros h H. destruct (E_eq h e); [auto|discriminate].
    - destruct (E_eq f e); congruence.
    - auto.
    - intros h Nh. destruct (E_eq h e) as [->|N']; [auto|].
      destruct (P h) eqn:H; [|reflexivity]. destruct (U h H); contradiction.
  Qed.

  Lemma cases : forall b, (exists s, b = full_of s) \/ (exists s, b = empty_of s).
  Proof.
    intros b. pose proof (Nat.div_mod b 2 ltac:(lia)). pose proof (Nat.mod_upper_bound b 2 ltac:(lia)).
    destruct (Nat.eq_dec (b mod 2) 0); [left|right]; exists (b / 2); unfold full_of, empty_of; lia.
  Qed.

  Lemma full_phase : forall b k, (0 <= k < laps b)%Z ->
    total E (on b k) (arrivals E what) events = 1%Z /\ total E (on b k) (bytes E what) events = 0%Z.
  Proof.
    intros b k K. set (l := Z.to_nat k).
    assert (Hs : (b / 2 < S)%nat).
    { destruct (lt_dec (b / 2) S); auto. rewrite laps_unused in K by lia. lia. }
    assert (Hn : (S * l + b / 2 < N)%nat) by (apply (laps_spec b (b / 2)); auto; lia).
    destruct (cases b) as [(s & ->)|(s & ->)]; rewrite ?half_full, ?half_empty in *.
    - destruct (some Announce _ Hn) as (e & Ke & Ne). destruct (some Copied _ Hn) as (f & Kf & Nf).
      assert (Se : slot e = s /\ lap e = l).
      { destruct (at_slot Announce s l Hn Hs) as [A B]. unfold slot, lap in *. rewrite num_at in *. rewrite Ne. auto. }
      assert (Sf : slot f = s /\ lap f = l) by (unfold slot, lap in *; rewrite Nf, <- Ne; auto).
      destruct Se as [Se Le], Sf as [Sf Lf].
      assert (We : what e = Contribute (full_of s) 1 256) by (unfold what; rewrite Ke, Se; reflexivity).
      assert (Wf : what f = Contribute (full_of s) 0 (-256)) by (unfold what; rewrite Kf, Sf; reflexivity).
      assert (Oe : on (full_of s) k e = true) by (apply on_step; rewrite half_full; repeat split; eauto; lia).
      assert (Of : on (full_of s) k f = true) by (apply on_step; rewrite half_full; repeat split; eauto; lia).
      assert (U : forall h, on (full_of s) k h = true -> h = e \/ h = f).
      { intros h H. apply on_step in H. destruct H as ((a & x & W) & B & L). rewrite half_full in B.
        assert (num h = num e) by (rewrite (split_num h), (split_num e); assert (lap h = lap e) by lia; congruence).
        destruct (kind_of_full h s a x W) as [[Kh|Kh] _]; [left|right]; apply same_event; congruence. }
      assert (Nef : e <> f) by (intros ->; congruence).
      split; rewrite (total_pair _ _ events e f events_once (events_all e) (events_all f) Nef Oe Of U);
        unfold arrivals, bytes; rewrite We, Wf; reflexivity.
    - destruct (some Release _ Hn) as (e & Ke & Ne).
      assert (Se : slot e = s /\ lap e = l).
      { destruct (at_slot Release s l Hn Hs) as [A B]. unfold slot, lap in *. rewrite num_at in *. rewrite Ne. auto. }
      destruct Se as [Se Le].
      assert (We : what e = Contribute (empty_of s) 1 0) by (unfold what; rewrite Ke, Se; reflexivity).
      assert (Oe : on (empty_of s) k e = true) by (apply on_step; rewrite half_empty; repeat split; eauto; lia).
      assert (U : forall h, on (empty_of s) k h = true -> h = e).
      { intros h H. apply on_step in H. destruct H as ((a & x & W) & B & L). rewrite half_empty in B.
        assert (num h = num e) by (rewrite (split_num h), (split_num e); assert (lap h = lap e) by lia; congruence).
        destruct (kind_of_empty h s a x W) as [Kh _]. apply same_event; congruence. }
      split; rewrite (total_at _ _ events e events_once (events_all e) Oe U);
        unfold arrivals, bytes; rewrite We; reflexivity.
  Qed.

  Lemma open_tail : forall b, (total E (on b (laps b)) (arrivals E what) events < 1)%Z.
  Proof.
    intros b. rewrite total_none; [lia|]. intros e _. destruct (on b (laps b) e) eqn:H; [|reflexivity].
    apply on_step in H. destruct H as (_ & B & L). pose proof (lap_below e b B). lia.
  Qed.

  (** ** The results *)

  Let reachable := reachable E what req (fun _ => 1%Z).
  Let step := step E what req (fun _ => 1%Z).

  Theorem ring_never_hangs : forall s, reachable s -> (exists e, ~ done E s e) -> exists t, step s t.
  Proof.
    apply (no_hang E E_eq events events_all events_once what req (fun _ => 1%Z) ph laps rank
             ranks (fun _ => eq_refl) shapes within means full_phase open_tail O1 O2 O3 O4).
  Qed.

  Definition performed_before := older_than E.

  Theorem ring_orders : forall s, reachable s -> forall e f, path e f -> done E s f -> performed_before s e f.
  Proof.
    apply (path_orders E E_eq events events_all events_once what req (fun _ => 1%Z) ph laps
             (fun _ => eq_refl) shapes within means full_phase open_tail O1 O2 O3 O4).
  Qed.

  (** A step is read after its copy, and a slot is filled again after it was read. *)
  Theorem read_after_copy : forall s, reachable s -> forall c r, fst c = Copied -> fst r = Read -> num c = num r ->
    done E s r -> performed_before s c r.
  Proof.
    intros s R c r Kc Kr Hn D. apply ring_orders; auto. pose proof (num_lt r).
    destruct (some AwaitFull (num r)) as (w & Kw & Nw); [lia|].
    apply t_trans with w; apply t_step.
    - apply fills; auto. congruence.
    - by_program.
  Qed.

  Theorem fill_after_read : forall s, reachable s -> forall r c, fst r = Read -> fst c = Copied ->
    num c = (num r + S)%nat -> done E s c -> performed_before s r c.
  Proof.
    intros s R r c Kr Kc Hn D. apply ring_orders; auto. pose proof (num_lt c).
    destruct (some AwaitEmpty (num c)) as (w & Kw & Nw); [lia|].
    apply t_trans with w.
    - apply lap_over; [tauto|auto|lia].
    - apply fills_after; auto. 
  Qed.
End Ring.

Print Assumptions ring_never_hangs.
Print Assumptions fill_after_read.
